//! The steps of `destroy`, decided once: what is shown is what is executed. A check just before a step may
//! only turn a deletion into keeping the resource.

use crate::account::{Association, FileSystem};
use crate::file_systems::monthly_cost;
use crate::inventory::{Inventory, foreign_policies, upload_kind};
use crate::ledger::Item;
use crate::observed::ObservedRole;
use crate::ownership;
use trainc_diag::text;
use trainc_emit::{ResourceKind, Verb};

/// The user's consent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// Delete file systems with all their data.
    pub delete_data: bool,
}

/// A step of `destroy`.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    /// The resource.
    pub item: Item,
    /// What happens to it.
    pub step: Step,
    /// The reason.
    pub because: String,
    /// Monthly cost in US dollars while it is kept, if the price is known.
    pub usd_per_month: Option<f64>,
    /// Date of that price.
    pub price_date: Option<String>,
}

/// What happens to a resource.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The run is stopped.
    Stop,
    /// It is deleted.
    Delete(Subject),
    /// The job's tag is removed from it; others use it.
    Leave(Box<FileSystem>),
    /// It is kept.
    Keep(Kept),
}

/// What is deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A link of the file system of the next such step, deleted with it.
    Association(Box<Association>),
    /// A file system, without its links.
    FileSystem(Box<FileSystem>),
    /// A role with its policy.
    Role(Box<ObservedRole>),
    /// An object.
    Object {
        /// Its bucket.
        bucket: String,
        /// Its key.
        key: String,
    },
    /// An unfinished multipart upload.
    Upload {
        /// Its bucket.
        bucket: String,
        /// The key of the object.
        key: String,
        /// Its ID.
        id: String,
    },
}

/// Why a resource is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A running job that is not ours uses it.
    InUse {
        /// True if it would be deleted otherwise.
        deletable: bool,
    },
    /// It contains data, and the user has not consented to deleting it.
    Data,
    /// The role has policies that someone else added, by name.
    ExtendedRole(String),
    /// It belongs to others.
    Foreign,
    /// It may contain data of other jobs.
    Shared,
}

/// When resources of a kind are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// First, since a run needs all others.
    Runs,
    /// Then what is billed by the hour, which takes minutes.
    FileSystems,
    /// Last, unless a run has started with them in the meantime.
    Files,
}

impl Phase {
    /// Returns the phase in which a kind is removed.
    pub(super) fn of_kind(kind: ResourceKind) -> Self {
        match kind {
            ResourceKind::TrainingJob => Self::Runs,
            ResourceKind::FileSystem | ResourceKind::Association => Self::FileSystems,
            ResourceKind::Role
            | ResourceKind::RolePolicy
            | ResourceKind::Source
            | ResourceKind::Worker
            | ResourceKind::Bucket => Self::Files,
        }
    }
}

impl Removal {
    fn new(item: Item, step: Step, because: String) -> Self {
        Self { item, step, because, usd_per_month: None, price_date: None }
    }

    /// Returns the word for the step.
    pub fn verb(&self) -> Verb {
        match self.step {
            Step::Stop => Verb::Stop,
            Step::Delete(_) => Verb::Delete,
            Step::Leave(_) => Verb::Leave,
            Step::Keep(_) => Verb::Keep,
        }
    }
}

/// The steps of `destroy`, in the order in which they are shown and executed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Removals(pub Vec<Removal>);

impl Removals {
    /// Returns true if any resource is changed.
    pub fn has_changes(&self) -> bool {
        self.0.iter().any(|one| !matches!(one.step, Step::Keep(_)))
    }

    /// Returns true if any resource, apart from the default bucket, was found.
    pub fn has_resources(&self) -> bool {
        self.0.iter().any(|one| one.step != Step::Keep(Kept::Shared))
    }

    /// Returns true if a resource remains because of others: one that is in use, or that is not ours.
    pub fn leaves_foreign(&self) -> bool {
        let foreign = |kept: &Kept| matches!(kept, Kept::InUse { deletable: true } | Kept::Foreign);
        self.0.iter().any(|one| matches!(&one.step, Step::Keep(kept) if foreign(kept)))
    }

    /// Returns true if someone else added policies to the role, which therefore remains.
    pub fn has_extended_role(&self) -> bool {
        self.0.iter().any(|one| matches!(one.step, Step::Keep(Kept::ExtendedRole(_))))
    }

    /// Returns the steps of the file systems that remain only because of their data.
    pub fn kept_data(&self) -> impl Iterator<Item = &Removal> {
        self.0.iter().filter(|one| one.step == Step::Keep(Kept::Data))
    }

    /// Returns true if a file system of the job remains, and its bill with it.
    pub fn keeps_file_system(&self) -> bool {
        let kept = |one: &Removal| one.item.kind == ResourceKind::FileSystem && one.verb() == Verb::Keep;
        self.0.iter().any(kept)
    }

    /// Returns true if links are deleted, with the files that they have not exported.
    pub fn deletes_links(&self) -> bool {
        self.0.iter().any(|one| matches!(one.step, Step::Delete(Subject::Association(_))))
    }

    /// Returns the steps of a phase.
    pub(super) fn of_phase(&self, phase: Phase) -> impl Iterator<Item = &Removal> {
        self.0.iter().filter(move |one| Phase::of_kind(one.item.kind) == phase)
    }

    /// Returns the resources that are deleted in a phase or later.
    pub(super) fn deleted_from(&self, phase: Phase) -> impl Iterator<Item = &Item> {
        let deleted = self.0.iter().filter(|one| one.verb() == Verb::Delete);
        deleted.map(|one| &one.item).filter(move |item| Phase::of_kind(item.kind) >= phase)
    }
}

/// Returns the position of a kind in the list of steps.
fn place(kind: ResourceKind) -> u8 {
    match kind {
        ResourceKind::TrainingJob => 0,
        ResourceKind::Association | ResourceKind::FileSystem => 1,
        ResourceKind::RolePolicy | ResourceKind::Role => 2,
        ResourceKind::Source => 3,
        ResourceKind::Worker => 4,
        ResourceKind::Bucket => 5,
    }
}

impl Inventory {
    /// Returns the steps of `destroy`, in order.
    pub fn removals(&self, consent: Consent) -> Removals {
        let mut kinds = ResourceKind::ALL.to_vec();
        kinds.sort_by_key(|kind| place(*kind));
        let mut out: Vec<Removal> = kinds.iter().flat_map(|kind| self.steps_of(*kind, consent)).collect();
        out.extend(self.uploads.iter().map(|(bucket, key, id)| {
            let item = Item::new(upload_kind(key).0, &format!("s3://{bucket}/{key}"));
            let (bucket, key, id) = (bucket.clone(), key.clone(), id.clone());
            let step = Step::Delete(Subject::Upload { bucket, key, id });
            Removal::new(item, step, "an unfinished multipart upload".to_owned())
        }));
        Removals(out)
    }

    /// Returns the steps of one kind of resources.
    fn steps_of(&self, kind: ResourceKind, consent: Consent) -> Vec<Removal> {
        match kind {
            ResourceKind::TrainingJob => self
                .running
                .iter()
                .map(|job| {
                    let because = format!("it is {}", job.status);
                    Removal::new(Item::new(kind, &job.name), Step::Stop, because)
                })
                .collect(),
            ResourceKind::FileSystem => self
                .file_systems
                .iter()
                .flat_map(|(system, links)| self.file_system_steps(system, links, consent))
                .collect(),
            // With their file systems, and with the role.
            ResourceKind::Association | ResourceKind::RolePolicy => Vec::new(),
            ResourceKind::Role => self.role_steps(),
            ResourceKind::Source | ResourceKind::Worker => self.object_steps(kind),
            ResourceKind::Bucket => self
                .bucket
                .iter()
                .map(|bucket| {
                    let because = "the SageMaker SDK's default bucket, which may hold other data";
                    Removal::new(Item::new(kind, bucket), Step::Keep(Kept::Shared), because.to_owned())
                })
                .collect(),
        }
    }

    fn file_system_steps(
        &self,
        system: &FileSystem,
        links: &[Association],
        consent: Consent,
    ) -> Vec<Removal> {
        let item = Item::new(ResourceKind::FileSystem, &system.id);
        let sharers = self.sharers(system);
        let user = self.running_user(&system.id);
        // If the user is not asked, the manifest decides, regardless of which job is the last: just before
        // the deletion it is checked whether others still use it.
        let is_decided_later = self.unasked && user.is_none();
        if !sharers.is_empty() && !is_decided_later {
            let uses = if sharers.len() == 1 { "uses" } else { "use" };
            let because = format!("{} also {uses} it", text::backtick_list(&sharers, "and"));
            return vec![Removal::new(item, Step::Leave(Box::new(system.clone())), because)];
        }
        let deletable = consent.delete_data || self.releases(&system.id);
        let kept = if let Some(job) = user {
            Some((Kept::InUse { deletable }, format!("{job} reads it")))
        } else if deletable {
            None
        } else {
            let because = "it contains data: `--delete-data` deletes it with all of its data";
            Some((Kept::Data, because.to_owned()))
        };
        if let Some((kept, because)) = kept {
            let (usd_per_month, price_date) = monthly_cost(&self.region, system).unzip();
            let kept = Removal::new(item, Step::Keep(kept), because);
            return vec![Removal { usd_per_month, price_date, ..kept }];
        }
        let mut out: Vec<Removal> = links
            .iter()
            .map(|link| {
                let item = Item::new(ResourceKind::Association, &link.id);
                let step = Step::Delete(Subject::Association(Box::new(link.clone())));
                Removal::new(item, step, describe_unlink(system, link))
            })
            .collect();
        let said = if self.releases(&system.id) { "`delete-after-job`: " } else { "" };
        let size = format!("{said}{} GiB, including all data", text::group_digits(system.capacity_gib));
        out.push(Removal::new(item, Step::Delete(Subject::FileSystem(Box::new(system.clone()))), size));
        out
    }

    fn role_steps(&self) -> Vec<Removal> {
        let ours = self.role.as_ref().map(|found| {
            let name = found.role.name.as_str();
            let (step, because) = if let Some(job) = self.running_user(name) {
                let because = format!("{job} runs with it and lacks this job's tag `trainc:job`");
                (Step::Keep(Kept::InUse { deletable: true }), because)
            } else if let Some(more) = foreign_policies(found) {
                let because = format!("someone added {more} to it");
                (Step::Keep(Kept::ExtendedRole(more)), because)
            } else {
                (
                    Step::Delete(Subject::Role(Box::new(found.clone()))),
                    "no other running job uses it".to_owned(),
                )
            };
            Removal::new(Item::new(ResourceKind::Role, name), step, because)
        });
        let theirs = self.foreign_role.as_ref().map(|found| {
            let item = Item::new(ResourceKind::Role, &found.role.name);
            let because = format!("it belongs to {}", ownership::owner(&found.role.tags));
            Removal::new(item, Step::Keep(Kept::Foreign), because)
        });
        ours.into_iter().chain(theirs).collect()
    }

    fn object_steps(&self, wanted: ResourceKind) -> Vec<Removal> {
        let mut out = Vec::new();
        for (bucket, key) in &self.objects {
            let (kind, because) = upload_kind(key);
            if kind != wanted {
                continue;
            }
            let item = Item::new(kind, &format!("s3://{bucket}/{key}"));
            out.push(if let Some(job) = self.running_user(&item.name) {
                let because = format!("{because} that {job} was started with");
                Removal::new(item, Step::Keep(Kept::InUse { deletable: true }), because)
            } else {
                let subject = Subject::Object { bucket: bucket.clone(), key: key.clone() };
                Removal::new(item, Step::Delete(subject), because.to_owned())
            });
        }
        out
    }
}

/// Describes what happens to the files of a link that is deleted with its file system.
fn describe_unlink(system: &FileSystem, link: &Association) -> String {
    let goes = format!("its file system {} is deleted", system.id);
    if link.export.is_empty() {
        return format!(
            "{goes}; it does not export: files written below {} are not in any bucket",
            link.path
        );
    }
    // Only an available link exports; the account does not report the export's progress.
    let may_not_export = match link.lifecycle.as_str() {
        "AVAILABLE" => String::new(),
        state => format!("it is {state} and may not be exporting; "),
    };
    format!(
        "{goes}; {may_not_export}changes below {} that are not yet exported to {} are lost; \
            exported files stay",
        link.path, link.s3
    )
}
