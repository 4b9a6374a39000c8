//! Values of a request as a manifest writes them, by the declarations of the language.

use super::kdl::{Node, escape_placeholders, string};
use serde_json::Value;
use trainc_emit::UnmappedMembers;
use trainc_language::members::{SentValue, sent_values};
use trainc_language::spec::Ty;
use trainc_language::{Declared, Member, Place, Unit};

impl Node {
    /// Adds the value that is sent as a member of an object of the request, and takes the member; `object` is
    /// its path, empty for the request itself. Without the member, or with one of another type, nothing
    /// changes.
    pub(super) fn value(self, members: &mut UnmappedMembers, object: &str, member: &str) -> Self {
        match take(members, object, member) {
            Some((declared, literal)) => match declared.place {
                Place::Child => self.child(Self::new(declared.name).arg(&literal)),
                _ => self.prop(declared.name, &literal),
            },
            None => self,
        }
    }

    /// Returns the node with only a value that is sent as a member, and takes the member.
    pub(super) fn of_value(members: &mut UnmappedMembers, object: &str, member: &str) -> Option<Self> {
        take(members, object, member).map(|(declared, literal)| Self::new(declared.name).arg(&literal))
    }
}

/// Takes a member and returns the declaration of its value with a literal.
fn take(members: &mut UnmappedMembers, object: &str, member: &str) -> Option<(&'static Declared, String)> {
    let path = if object.is_empty() { member.to_owned() } else { format!("{object}.{member}") };
    let SentValue { declared, member: sent, .. } =
        sent_values().into_iter().find(|one| one.member.path == path)?;
    let literal = literal(declared, sent, members.get(member)?)?;
    match member.rsplit_once('.') {
        Some((outer, inner)) => members.take_in(outer, inner),
        None => members.take(member),
    };
    Some((declared, literal))
}

/// Returns a value of the request as a literal; `None` if it has another type.
fn literal(declared: &Declared, member: &Member, value: &Value) -> Option<String> {
    if !member.words.is_empty() {
        let (ours, _) = member.words.iter().find(|(_, theirs)| value.as_str() == Some(*theirs))?;
        return Some(if declared.ty == Ty::Bool { format!("#{ours}") } else { string(ours) });
    }
    Some(match declared.ty {
        Ty::Bool => format!("#{}", value.as_bool()?),
        Ty::Bytes => string(&format!("{}GiB", value.as_u64()?)),
        Ty::Duration if declared.unit == Unit::Milliseconds => string(&format!("{}ms", value.as_u64()?)),
        Ty::Duration => string(&format_duration(value.as_u64()?)),
        Ty::Int(..) | Ty::Count => value.as_u64()?.to_string(),
        _ => string(&escape_placeholders(value.as_str()?)),
    })
}

/// Formats a duration in its largest whole unit.
pub(super) fn format_duration(seconds: u64) -> String {
    for (unit, size) in [("d", 86_400), ("h", 3_600), ("m", 60)] {
        if seconds > 0 && seconds.is_multiple_of(size) {
            return format!("{}{unit}", seconds / size);
        }
    }
    format!("{seconds}s")
}
