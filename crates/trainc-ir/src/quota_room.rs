//! What running jobs leave of the quotas of an account.

use schemars::JsonSchema;
use serde::Serialize;

/// A quota of the account that running jobs share, and what the job takes of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct QuotaRoom {
    /// Name in Service Quotas.
    pub name: String,
    /// Code in Service Quotas, as `L-09B4A649`.
    pub code: Option<String>,
    /// Value in the account, instances.
    #[schemars(range(min = 0.0))]
    pub value: f64,
    /// Instances of this job.
    #[schemars(range(min = 0.0))]
    pub needed: f64,
    /// Instances of other jobs, including earlier jobs of the same command; null if not read.
    /// `value - needed - in_use` is left.
    #[schemars(range(min = 0.0))]
    pub in_use: Option<f64>,
    /// Not all running jobs were read: more instances may be in use.
    pub in_use_is_lower_bound: bool,
    /// The value is that of a new account from the catalogue, not confirmed for this account.
    pub is_default: bool,
}
