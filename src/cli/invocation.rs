//! The current command line, as the next command about the same job repeats it.

use super::account::AccountArgs;
use super::overlay::Overlay;
use trainc_diag::Invocation;
use trainc_emit::quote;

/// Returns the invocation of a manifest with its overlay and the account.
pub(super) fn invocation(path: &str, overlay: &Overlay, account: &AccountArgs) -> Invocation {
    Invocation::new(quote(path), overlay.flags().into_iter().chain(account.flag()).collect())
}
