//! Fault injection in a simulated account.

use crate::calls::{Call, Effect};
use crate::fault::Fault;

/// Time of a simulated crash, relative to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the effect of the call.
    Before,
    /// After the effect, before the answer.
    After,
}

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The call.
    pub call: Call,
    /// Number of attempts that fail, from the first.
    pub times: u32,
    /// HTTP status.
    pub http: u16,
    /// Error code.
    pub code: &'static str,
    /// Error message.
    pub text: &'static str,
}

/// All injected faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The caller crashes at the n-th call, counted from 1.
    pub crash: Option<(usize, Moment)>,
    /// The first two attempts of every call fail with this status and code.
    pub twice: Option<(u16, &'static str)>,
    /// The first response to every writing call is lost after its effect.
    pub loses_answers: bool,
    /// Reads show the account as it was this number of calls ago.
    pub lag: usize,
    /// Credentials expire after this number of calls.
    pub expires_after: Option<usize>,
    /// Errors of individual calls.
    pub refusals: Vec<Refusal>,
}

impl Faults {
    pub(super) fn fault_before_call(&self, call: Call, attempt: u32) -> Option<Fault> {
        if let Some((http, code)) = self.twice
            && !attempt.is_multiple_of(3)
        {
            return Some(Fault::from_answer(call, Some(http), code, "simulated"));
        }
        let refusal = self.refusals.iter().find(|one| one.call == call && attempt <= one.times)?;
        Some(Fault::from_answer(call, Some(refusal.http), refusal.code, refusal.text))
    }

    pub(super) fn loses_answer(&self, call: Call, attempt: u32) -> bool {
        self.loses_answers && call.row().effect == Effect::Write && attempt == 1
    }
}
