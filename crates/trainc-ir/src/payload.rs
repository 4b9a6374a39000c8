//! The payload of a job: what its containers start, from which code, and what trainc adds to it.

use std::sync::Arc;

/// The directory in which a container has the content of the archive. Programs start in it.
pub const CODE_DIRECTORY: &str = "/opt/ml/code";

/// What the containers of a job start, from which code, and what trainc adds to it. It is decided once, when
/// the plan is bound; requests, scripts, archives and policies are rendered from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// What the containers start.
    pub starts: Starts,
    /// The file of the code that is started: by the toolkit, or by the launcher of the launch script. `None` for
    /// a program without a file. It is trainc's own script where that must run first.
    pub program: Option<String>,
    /// The archive with the code; `None` if the containers get none.
    pub archive: Option<Archive>,
    /// The files that trainc adds to the code, in the order in which they are written.
    pub added: Vec<AddedFile>,
    /// Variables for communication over EFA that what trainc starts sets, since no toolkit does.
    pub environment: Vec<(String, String)>,
    /// The place of the key by which the hosts recognise each other; `None` if nothing of trainc's listens.
    pub key: Option<KeyPlace>,
}

/// What the containers of a job start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Starts {
    /// The container's own program: the entry point of the manifest, otherwise that of the image.
    #[default]
    Container,
    /// The training toolkit of the image, which starts the program.
    Toolkit,
    /// The launch script in the archive, which starts the ranks.
    LaunchScript {
        /// Whether it also starts the program, once each, on hosts of instance groups without ranks.
        has_other_hosts: bool,
    },
    /// The binary of engine `worker`.
    Worker {
        /// The channel with the binary and its config.
        channel: String,
        /// The files that trainc adds to the channel: scripts that start the binary.
        added: Vec<AddedFile>,
    },
}

/// The archive with the code of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// Who packs it.
    pub origin: ArchiveOrigin,
    /// The channel that provides it: a container with network isolation cannot download it, and one without
    /// the toolkit does not. `None` if the toolkit downloads it.
    pub channel: Option<String>,
}

/// Who packs the archive of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveOrigin {
    /// trainc packs and uploads it.
    Packed,
    /// It exists at the address of `program s3=`.
    Existing,
}

/// A file that trainc adds to the code, or to the channel of engine `worker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddedFile {
    /// The script that fetches secrets and then starts the program.
    SecretsScript,
    /// The script that also measures the cluster or watches the run, in place of the one for secrets.
    StartScript,
    /// The settings of the start script.
    StartSettings,
    /// The script that measures the cluster.
    Probe,
    /// The script that starts the ranks in containers whose training toolkit is not used.
    LaunchScript,
    /// A file that the launcher, a library or the program reads: one that the manifest names and the source
    /// does not contain, or one that trainc writes.
    Settings {
        /// Its path in the archive.
        path: String,
        /// Its content.
        text: Arc<str>,
    },
}

impl AddedFile {
    /// Returns its path in the archive.
    pub fn name(&self) -> &str {
        match self {
            Self::SecretsScript | Self::StartScript => "trainc_start.py",
            Self::StartSettings => "trainc_start.json",
            Self::Probe => "trainc_probe.py",
            Self::LaunchScript => "trainc_launch.py",
            Self::Settings { path, .. } => path,
        }
    }
}

/// The place of the key by which the hosts of a job recognise each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// Next to the archive.
    Archive,
    /// In the channel of engine `worker`.
    Worker,
}

impl Payload {
    /// Returns whether trainc packs the archive.
    pub fn is_packed(&self) -> bool {
        self.archive.as_ref().is_some_and(|archive| archive.origin == ArchiveOrigin::Packed)
    }

    /// Returns the channel that provides the archive, if one does.
    pub fn code_channel(&self) -> Option<&str> {
        self.archive.as_ref()?.channel.as_deref()
    }

    /// Returns the channel of engine `worker`.
    pub fn worker_channel(&self) -> Option<&str> {
        match &self.starts {
            Starts::Worker { channel, .. } => Some(channel),
            Starts::Container | Starts::Toolkit | Starts::LaunchScript { .. } => None,
        }
    }

    /// Returns the files that trainc adds to the channel of engine `worker`.
    pub fn worker_files(&self) -> &[AddedFile] {
        match &self.starts {
            Starts::Worker { added, .. } => added,
            Starts::Container | Starts::Toolkit | Starts::LaunchScript { .. } => &[],
        }
    }

    /// Returns the channel that provides the key, if one does: the key is next to the worker's config, or to
    /// the archive.
    pub fn key_channel(&self) -> Option<&str> {
        self.worker_channel().or(self.code_channel())
    }

    /// Returns the program of the training toolkit. Engine `worker` starts its binary in place of the
    /// toolkit, which is nevertheless told of a program; a rule reports that nothing uses it.
    pub fn toolkit_program(&self) -> Option<&str> {
        match self.starts {
            Starts::Toolkit | Starts::Worker { .. } => self.program.as_deref(),
            Starts::Container | Starts::LaunchScript { .. } => None,
        }
    }

    /// Returns whether the launch script starts the ranks.
    pub fn is_launched_by_script(&self) -> bool {
        matches!(self.starts, Starts::LaunchScript { .. })
    }

    /// Returns whether the launch script also starts the program on hosts without ranks.
    pub fn has_other_hosts(&self) -> bool {
        self.starts == Starts::LaunchScript { has_other_hosts: true }
    }

    /// Returns whether a script of trainc's can run before the program: one that the toolkit or the launch
    /// script starts from an archive that trainc packs, or the worker.
    pub fn can_start_script(&self) -> bool {
        match self.starts {
            Starts::Worker { .. } => true,
            Starts::Toolkit | Starts::LaunchScript { has_other_hosts: false } => self.is_packed(),
            Starts::Container | Starts::LaunchScript { has_other_hosts: true } => false,
        }
    }

    /// Returns whether a script measures the cluster or watches the run.
    pub fn is_watched(&self) -> bool {
        self.added.iter().chain(self.worker_files()).any(|file| *file == AddedFile::StartScript)
    }
}
