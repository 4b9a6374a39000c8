//! What goes wrong with a simulated account.

use crate::calls::{Call, Effect};
use crate::fault::Fault;

/// When a crash comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the call has its effect.
    Before,
    /// After it, before the answer.
    After,
}

/// An answer that refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The call.
    pub call: Call,
    /// How many times, from the first.
    pub times: u32,
    /// HTTP status.
    pub http: u16,
    /// The service's code.
    pub code: &'static str,
    /// The service's text.
    pub text: &'static str,
}

/// Everything that goes wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The caller crashes at the n-th call, from 1.
    pub crash: Option<(usize, Moment)>,
    /// Every call is answered so that many times before it succeeds: status and code.
    pub twice: Option<(u16, &'static str)>,
    /// The first answer of every call that changes something is lost after its effect.
    pub loses_answers: bool,
    /// Reads show the account as it was so many calls ago.
    pub lag: usize,
    /// Credentials run out after so many calls.
    pub expires_after: Option<usize>,
    /// Single refusals.
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
