//! The written mesh with another division of the same batch.

use crate::choice::Choice;
use crate::space::Space;
use trainc_predict::Layout;

impl Space<'_> {
    /// Calls `each` with every micro-batch and recomputation of the written mesh and offload. Micro-batches of
    /// a pipeline stay, and so does the number into which the script splits a batch.
    pub fn visit_batches(&self, mut each: impl FnMut(&Choice, &Layout)) {
        let own = self.written;
        self.visit_mesh(own.site, own.nodes, own.degrees, &mut |choice, layout| {
            let is_split_alike = choice.num_micro_batches == own.num_micro_batches
                && (own.degrees.pipeline <= 1 || choice.micro_batch_size == own.micro_batch_size);
            if is_split_alike && choice.host_offload == own.host_offload {
                each(choice, layout);
            }
        });
    }
}
