//! The current command line, as the next command about the same job repeats it.

use crate::args::account::AccountArgs;
use crate::args::overlay::Overlay;
use trainc_diag::Invocation;
use trainc_emit::quote;

/// Returns the invocation of a manifest with its overlay and the account.
pub(crate) fn invocation(path: &str, overlay: &Overlay, account: &AccountArgs) -> Invocation {
    Invocation::new(quote(path), overlay.flags().into_iter().chain(account.flag()).collect())
}
