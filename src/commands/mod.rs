//! The commands, one file each: arguments, whose doc comments are the help, one operation, and the view of
//! its outcome.

pub(crate) mod apply;
pub(crate) mod calibrate;
pub(crate) mod catalog;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod data;
pub(crate) mod destroy;
pub(crate) mod emit;
pub(crate) mod explain;
pub(crate) mod fmt;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod logs;
pub(crate) mod lsp;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod tune;
pub(crate) mod watch;
