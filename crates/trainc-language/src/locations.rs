//! The S3 locations of a job, and what is done to each: the one list of them.

use super::address::Address;
use super::nodes::Job;
use super::origin::Field;
use super::s3;
use super::scalar::{Raw, RequestMember};
use trainc_diag::source::{Span, Spanned};

/// What is done to an S3 location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The job or its file system reads it.
    Read,
    /// The program of a created role may read it.
    Grant,
    /// The job, its file system or trainc writes to it.
    Write,
}

/// A field of the manifest that holds an S3 URI.
#[derive(Clone, Debug)]
pub struct LocationField<'a> {
    /// The URI.
    pub field: &'a Field<Address>,
    /// The span of its node.
    pub span: Span,
    /// Its name in the language, such as `checkpoint s3=`.
    pub name: &'static str,
    /// What is done to it.
    pub access: Access,
}

/// An S3 URI of the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location<'a> {
    /// `s3://bucket/key`, or a web URL of S3.
    pub uri: &'a str,
    /// Its span.
    pub span: Span,
    /// What is done to it.
    pub access: Access,
}

impl Job {
    /// Returns every field that holds an S3 URI.
    pub fn location_fields(&self) -> Vec<LocationField<'_>> {
        let mut out = Vec::new();
        let mut add = |field, span, name, access| out.push(LocationField { field, span, name, access });
        if let Some(program) = &self.program {
            add(&program.s3, program.span, "program s3=", Access::Read);
            add(&program.upload, program.span, "program upload=", Access::Write);
        }
        for storage in &self.storage {
            for link in &storage.imports {
                add(&link.s3, link.span, "import", Access::Read);
            }
            for link in &storage.exports {
                add(&link.s3, link.span, "export", Access::Write);
            }
        }
        for channel in &self.channels {
            add(&channel.s3, channel.span, "channel s3=", Access::Read);
            add(&channel.manifest, channel.span, "channel manifest=", Access::Read);
            add(&channel.converse, channel.span, "channel converse=", Access::Read);
            add(&channel.augmented_manifest, channel.span, "channel augmented-manifest=", Access::Read);
        }
        if let Some(node) = &self.checkpoint {
            add(&node.s3, node.span, "checkpoint s3=", Access::Write);
        }
        if let Some(node) = &self.output {
            add(&node.s3, node.span, "output s3=", Access::Write);
        }
        if let Some(node) = &self.debugger {
            add(&node.s3, node.span, "debugger s3=", Access::Write);
        }
        if let Some(node) = &self.profiler {
            add(&node.s3, node.span, "profiler s3=", Access::Write);
        }
        if let Some(node) = &self.tensorboard {
            add(&node.s3, node.span, "tensorboard s3=", Access::Write);
        }
        for read in self.role.iter().flat_map(|role| &role.reads) {
            add(&read.s3, read.span, "role read", Access::Grant);
        }
        out
    }

    /// Returns every S3 URI, those of raw members of the request included.
    pub fn locations(&self) -> Vec<Location<'_>> {
        let mut out: Vec<Location<'_>> = Vec::new();
        for LocationField { field, span, access, .. } in self.location_fields() {
            out.extend(field.val().map(|uri| Location { uri: &uri.value, span: uri.span_or(span), access }));
        }
        out.extend(self.request.iter().flat_map(RequestMember::locations));
        out
    }

    /// Returns the account that owns a bucket, where the manifest says so.
    pub fn bucket_owner(&self, name: &str) -> Option<&str> {
        let bucket =
            self.buckets.iter().find(|bucket| bucket.name.value().is_some_and(|known| known == name))?;
        bucket.owner.value().map(String::as_str)
    }
}

impl RequestMember {
    /// Returns the S3 URIs of a raw member.
    pub fn locations(&self) -> Vec<Location<'_>> {
        let mut out = Vec::new();
        add_raw_locations(&mut out, &self.name, &self.value);
        out
    }
}

/// Adds the S3 URIs of a raw value. SageMaker writes to the members of the API that are called `…OutputPath`.
fn add_raw_locations<'a>(out: &mut Vec<Location<'a>>, name: &str, value: &'a Raw) {
    match value {
        Raw::Scalar(Spanned { span, .. }) => {
            let Some(uri) = value.text().filter(|text| s3::parse(text).is_some()) else { return };
            let access = if name.ends_with("OutputPath") { Access::Write } else { Access::Read };
            out.push(Location { uri, span: *span, access });
        }
        Raw::List(items) => items.iter().for_each(|item| add_raw_locations(out, name, item)),
        Raw::Object(members) => {
            for member in members {
                add_raw_locations(out, &member.name, &member.value);
            }
        }
    }
}
