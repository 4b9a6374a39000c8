//! What stands for the account in offline output, and what an account says in its place: for `emit --resolve`.

use super::cloud::{Answer, Clock, Observe};
use super::desired::Desired;
use super::diff;
use super::observed::{Look, of_storage};
use super::patience::absent;
use crate::emit::{ROLE_ARN_MARK, storage_marks};

/// The marks of a plan, told apart by whether the account knows what they stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Mark and what it stands for.
    pub known: Vec<(String, String)>,
    /// Mark and why it stays.
    pub open: Vec<(String, String)>,
}

impl Marks {
    /// A text with what is known in the place of its mark.
    pub fn fill(&self, text: &str) -> String {
        self.known.iter().fold(text.to_owned(), |text, (mark, word)| text.replace(mark, word))
    }

    fn add(&mut self, mark: String, word: Result<String, String>) {
        match word {
            Ok(word) => self.known.push((mark, word)),
            Err(why) => self.open.push((mark, why)),
        }
    }
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Looks up what the plan's marks stand for. Only what is there and is this job's counts: what apply would make, or
    /// would refuse to take, stays open.
    pub async fn marks(&self, desired: &Desired) -> Answer<Marks> {
        let mut out = Marks::default();
        if let Some(wanted) = &desired.role {
            let name = wanted.create.role_name.as_str();
            let found = absent(self.ask(async |cloud| cloud.role(name).await).await)?;
            let word = match found {
                None => Err(format!("there is no role `{name}` yet; apply makes it")),
                Some(role) if !diff::is_ours(&role.tags, &desired.job) => {
                    Err(format!("the role `{name}` belongs to {}", diff::owner(&role.tags)))
                }
                Some(role) => Ok(role.arn),
            };
            out.add(ROLE_ARN_MARK.to_owned(), word);
        }
        if desired.file_systems.is_empty() {
            return Ok(out);
        }
        let all = self.ask(async |cloud| cloud.file_systems().await).await?;
        for wanted in &desired.file_systems {
            let (id_mark, mount_mark) = storage_marks(&wanted.name);
            let ours = of_storage(&all, desired, wanted);
            let Some(system) = diff::live_file_system(&ours) else {
                let why = format!("there is no file system `{}` yet; apply makes it", wanted.name);
                out.add(id_mark, Err(why.clone()));
                out.add(mount_mark, Err(why));
                continue;
            };
            let mount = system.mount.clone();
            let late = || format!("{} is {}, and has no mount name yet", system.id, system.lifecycle);
            out.add(id_mark, Ok(system.id.clone()));
            out.add(mount_mark, mount.ok_or_else(late));
        }
        Ok(out)
    }
}
