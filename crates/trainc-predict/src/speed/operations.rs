//! The operations of a step with their shapes and times, one call each: what a probe of the cluster measures.

use super::compute::{flash_seconds, product_seconds, products};
use super::links::{
    gather_seconds_once, gradient_bytes, gradient_constant, gradient_ranks, gradient_reduce_seconds,
    gradient_width, link_constant, parameters_per_gpu, replica_reduce_seconds, tensor_reduce,
};
use super::{Attention, Constants, HALF, Layout, Machine, Name, Sharding, System, worker_as_fsdp};
use trainc_ir::{Axis, Operation};

/// A matrix product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Product {
    /// Rows, inner dimension, columns.
    pub(crate) shape: [f64; 3],
    /// Seconds with operands of 16 bit; `None` if the machine is unknown.
    pub(crate) seconds: Option<f64>,
}

/// A collective on whole tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Transfer {
    pub(crate) operation: Operation,
    /// The axis along which its groups lie; `None` for all ranks.
    pub(crate) axis: Option<Axis>,
    /// Bytes of the whole tensor: the output of a gather, the input of the others.
    pub(crate) bytes: f64,
    /// The constant that determines its rate.
    pub(crate) constant: Name,
    /// Seconds, overlapped by nothing; `None` if the machine is unknown.
    pub(crate) seconds: Option<f64>,
}

impl Transfer {
    /// Returns the same collective on another number of bytes, at the same rate.
    pub(crate) fn with_bytes(self, bytes: f64) -> Self {
        Self { bytes, seconds: self.seconds.map(|seconds| seconds / self.bytes * bytes), ..self }
    }
}

/// The operations of a step on one GPU.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operations {
    /// The products of a layer (query, key and value; output; up; down) and of the head.
    pub(crate) products: [Product; 5],
    /// Seconds of FlashAttention, forward and backward, of one layer and micro-batch: one block of a context
    /// ring, or the same share of another layout. `None` for attention that writes its scores.
    pub(crate) attention: Option<f64>,
    /// The collectives of whole gradients, shards and tensor groups, over all parameters of a rank.
    pub(crate) transfers: Vec<Transfer>,
}

impl Operations {
    /// Returns the operations by which a layout is timed.
    pub(crate) fn new(whole: &Layout, constants: &Constants) -> Self {
        let instead = worker_as_fsdp(whole);
        let layout = instead.as_ref().unwrap_or(whole);
        let machine = Machine::of(layout, constants).ok();
        let machine = machine.as_ref();
        let blocks = layout.degrees.context.max(1.0);
        Self {
            products: products(layout).map(|shape| Product {
                shape,
                seconds: machine.map(|machine| product_seconds(machine, shape, machine.peak)),
            }),
            attention: machine
                .filter(|_| layout.attention == Attention::Flash)
                .map(|machine| flash_seconds(layout, machine, 0.0) / blocks),
            transfers: transfers(layout, machine),
        }
    }
}

fn transfers(layout: &Layout, machine: Option<&Machine>) -> Vec<Transfer> {
    let degrees = &layout.degrees;
    let mut out = Vec::new();
    let mut add = |operation, axis, bytes: f64, constant, seconds: &dyn Fn(&Machine) -> f64| {
        if bytes > 0.0 {
            out.push(Transfer { operation, axis, bytes, constant, seconds: machine.map(seconds) });
        }
    };
    let own = HALF * parameters_per_gpu(layout);
    if matches!(layout.sharding, Sharding::Full | Sharding::Gradients) && degrees.shard > 1.0 {
        let shard = Some(Axis::Shard);
        let constant = link_constant(layout, Axis::Shard, degrees.shard, Name::Fabric);
        let seconds = |machine: &Machine| gather_seconds_once(layout, machine);
        add(Operation::AllGather, shard, own, constant, &seconds);
        if layout.lora.is_none() {
            let wider = gradient_width(layout) / HALF;
            let seconds = |machine: &Machine| wider * seconds(machine);
            add(Operation::ReduceScatter, shard, wider * own, constant, &seconds);
        }
        if degrees.replicas > 1.0 {
            let constant = link_constant(layout, Axis::Replica, degrees.replicas, Name::Fabric);
            let bytes = gradient_width(layout) * parameters_per_gpu(layout) / degrees.shard;
            let seconds = |machine: &Machine| replica_reduce_seconds(layout, machine);
            add(Operation::AllReduce, Some(Axis::Replica), bytes, constant, &seconds);
        }
    } else if degrees.data_parallel_ranks() > 1.0 && layout.system != System::DeviceMap {
        let constant = link_constant(layout, Axis::Shard, gradient_ranks(layout), gradient_constant(layout));
        // The gradients of all data-parallel ranks: of all ranks, where no other axis divides them.
        if degrees.data_parallel_ranks() >= degrees.ranks() {
            let seconds = |machine: &Machine| gradient_reduce_seconds(layout, machine);
            add(Operation::AllReduce, None, gradient_bytes(layout), constant, &seconds);
        }
    }
    if degrees.tensor > 1.0 {
        let constant = link_constant(layout, Axis::Tensor, degrees.tensor, Name::TensorFabric);
        let bytes = HALF * layout.tokens_at_once() * layout.model.hidden;
        let seconds = |machine: &Machine| tensor_reduce(layout, machine).seconds();
        add(Operation::AllReduce, Some(Axis::Tensor), bytes, constant, &seconds);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{compute, speed};
    use super::*;
    use crate::layout::{FlashKernel, GpuKind, Precision, Recompute};
    use crate::samples::h100_fsdp;

    fn transfer(layout: &Layout, operation: Operation) -> Transfer {
        let all = Operations::new(layout, Constants::shipped()).transfers;
        *all.iter().find(|one| one.operation == operation).unwrap()
    }

    /// Returns the attention of a layer as a step has it, seconds.
    fn attention_of_step(layout: &Layout) -> f64 {
        let machine = Machine::of(layout, Constants::shipped()).unwrap();
        compute::compute_pass(layout, &machine).attention
    }

    /// A probe expects of each kernel the time that the step has for it, on a GPU with and without the third
    /// version.
    #[test]
    fn attention_is_that_of_the_step() {
        for (gpu, third) in [(GpuKind::H100, true), (GpuKind::A100, false)] {
            let mut layout = h100_fsdp();
            (layout.hardware.gpu, layout.recompute) = (Some(gpu), Recompute::None);
            let mut seconds = [FlashKernel::First, FlashKernel::Second, FlashKernel::Third].map(|kernel| {
                layout.flash = kernel;
                let operations = Operations::new(&layout, Constants::shipped());
                assert_eq!(operations.attention, Some(attention_of_step(&layout)), "{gpu:?} {kernel:?}");
                operations.attention.unwrap()
            });
            assert_eq!(seconds[2] < seconds[1], third, "{gpu:?}: {seconds:?}");
            seconds.reverse();
            assert!(seconds.is_sorted(), "{gpu:?}: {seconds:?}");
        }
        // Each block of a ring is a call.
        let mut layout = h100_fsdp();
        (layout.degrees.context, layout.recompute) = (4.0, Recompute::None);
        let one = Operations::new(&layout, Constants::shipped()).attention.unwrap();
        assert!((4.0 * one / attention_of_step(&layout) - 1.0).abs() < 1e-12);
        layout.attention = Attention::Eager;
        assert_eq!(Operations::new(&layout, Constants::shipped()).attention, None);
    }

    /// Collectives of a rank's whole tensors add up to the communication of a step.
    #[test]
    fn collectives_add_up_to_the_communication_of_a_step() {
        let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
        let links = |layout: &Layout| speed(layout, Constants::shipped()).unwrap().communication;
        let seconds = |layout: &Layout, operation| transfer(layout, operation).seconds.unwrap();
        let mut layout = h100_fsdp();
        for stages in [1.0, 2.0] {
            layout.degrees.pipeline = stages;
            layout.degrees.shard = 32.0 / stages;
            let found = links(&layout);
            // Two gathers in each pass; with a pipeline one for all of them.
            let (gathers, passes) = if stages > 1.0 { (1.0, 1.0) } else { (2.0, layout.work.passes) };
            close(passes * gathers * seconds(&layout, Operation::AllGather), found.gather - found.scatter);
            close(passes * seconds(&layout, Operation::ReduceScatter), found.scatter);
        }
        // The worker's gradients are in 32 bit, and scatter twice the bytes at the same rate.
        let bytes = transfer(&layout, Operation::AllGather).bytes;
        layout.system = System::Worker;
        layout.worker.wide_reduction = true;
        assert_eq!(transfer(&layout, Operation::ReduceScatter).bytes, 2.0 * bytes);
        close(seconds(&layout, Operation::ReduceScatter), 2.0 * seconds(&layout, Operation::AllGather));

        let mut ddp = h100_fsdp();
        (ddp.system, ddp.sharding) = (System::Ddp, Sharding::None);
        (ddp.degrees.shard, ddp.degrees.replicas) = (1.0, 32.0);
        ddp.precision = Precision::Mixed { bf16: true };
        close(seconds(&ddp, Operation::AllReduce), links(&ddp).gradients);
        // Under autocast they are in 32 bit: a tensor of as many bytes takes no longer in 16 bit.
        let wide = transfer(&ddp, Operation::AllReduce).with_bytes(1e9);
        ddp.precision = Precision::Pure16 { bf16: true };
        close(wide.seconds.unwrap(), transfer(&ddp, Operation::AllReduce).with_bytes(1e9).seconds.unwrap());
    }

    /// The rate of a collective is that of the constant by which the step is timed.
    #[test]
    fn a_measured_constant_moves_the_step() {
        let mut megatron = h100_fsdp();
        (megatron.system, megatron.sharding) = (System::Megatron, Sharding::None);
        (megatron.degrees.shard, megatron.degrees.replicas) = (1.0, 32.0);
        for (efa, wanted) in [(true, Name::GradientsEfa), (false, Name::Gradients)] {
            megatron.hardware.efa = efa;
            assert_eq!(transfer(&megatron, Operation::AllReduce).constant, wanted);
        }
        for layout in [h100_fsdp(), megatron] {
            let shipped = Constants::shipped();
            for one in Operations::new(&layout, shipped).transfers {
                let mut slower = shipped.clone();
                *slower.value_mut(one.constant.key()).unwrap() /= 2.0;
                let seconds = |constants| speed(&layout, constants).unwrap().step_seconds;
                assert!(seconds(&slower) > seconds(shipped), "{}", one.constant.key());
            }
        }
    }
}
