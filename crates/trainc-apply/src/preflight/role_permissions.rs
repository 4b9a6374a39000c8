//! The permissions checked for an existing role: all that a role created by trainc would have.

use crate::account::Question;
use std::collections::BTreeMap;
use trainc_emit::iam;
use trainc_ir::Plan;

/// Condition keys with the values that satisfy them.
type Context = BTreeMap<&'static str, Vec<String>>;

/// Returns the permissions that an existing role must have, in groups whose conditions do not contradict each
/// other.
pub(super) fn questions(plan: &Plan) -> Vec<Vec<Question>> {
    let mut groups: Vec<(Context, Vec<Question>)> = Vec::new();
    for statement in iam::statements(plan) {
        let conditions: Context =
            statement.conditions.iter().map(|one| (one.key, one.values.clone())).collect();
        let fits = |context: &Context| {
            conditions.iter().all(|(key, values)| context.get(key).is_none_or(|known| known == values))
        };
        let at = groups.iter().position(|(context, _)| fits(context)).unwrap_or_else(|| {
            groups.push((BTreeMap::new(), Vec::new()));
            groups.len() - 1
        });
        let Some((context, questions)) = groups.get_mut(at) else { continue };
        context.extend(conditions);
        for action in &statement.actions {
            for resource in &statement.resources {
                questions.push(Question {
                    action: (*action).to_owned(),
                    resource: resource.clone(),
                    context: Vec::new(),
                });
            }
        }
    }
    groups
        .into_iter()
        .map(|(context, mut questions)| {
            let context: Vec<(String, String)> = context
                .iter()
                .filter_map(|(key, values)| Some(((*key).to_owned(), values.first()?.clone())))
                .collect();
            for question in &mut questions {
                question.context.clone_from(&context);
            }
            questions
        })
        .collect()
}
