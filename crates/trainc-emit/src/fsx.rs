//! FSx for Lustre: CreateFileSystem and CreateDataRepositoryAssociation, with members named as in the API
//! (botocore 1.44.5, `fsx` 2018-03-01).
//!
//! Existing file systems (`id=`) and EFS file systems are only mounted, not created, so they have no
//! requests.

use super::fill::Fill;
use super::request::Tag;
use super::{canonical_json, names, tags};
use serde::Serialize;
use trainc_ir::digest::sha256_hex;
use trainc_ir::storage::MetadataMode;
use trainc_ir::units::GIB;
use trainc_ir::{Plan, Storage, StorageLink};

/// Hexadecimal digits of a token; with prefix and suffix it stays below the limit of 63 characters.
const TOKEN_DIGITS: usize = 40;

/// A file system that trainc creates, with its links.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSystem {
    /// Its name in the manifest.
    pub name: String,
    /// The request that creates it.
    pub create: CreateFileSystem,
    /// The requests that link it to S3, in the order of the manifest.
    pub associations: Vec<CreateDataRepositoryAssociation>,
}

/// CreateFileSystem.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
#[expect(missing_docs, reason = "the API's own documentation says what each member is")]
pub struct CreateFileSystem {
    pub client_request_token: String,
    pub file_system_type: String,
    pub storage_capacity: u64,
    pub storage_type: String,
    pub subnet_ids: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_group_ids: Vec<String>,
    pub tags: Vec<Tag>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    pub lustre_configuration: LustreConfiguration,
    pub file_system_type_version: String,
}

/// `LustreConfiguration` of CreateFileSystem.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
#[expect(missing_docs, reason = "the API's own documentation says what each member is")]
pub struct LustreConfiguration {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weekly_maintenance_start_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_unit_storage_throughput: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive_cache_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_compression_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub efa_enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_configuration: Option<MetadataConfiguration>,
}

/// `MetadataConfiguration` of CreateFileSystem.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
#[expect(missing_docs, reason = "the API's own documentation says what each member is")]
pub struct MetadataConfiguration {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    pub mode: String,
}

/// CreateDataRepositoryAssociation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
#[expect(missing_docs, reason = "the API's own documentation says what each member is")]
pub struct CreateDataRepositoryAssociation {
    pub file_system_id: String,
    pub file_system_path: String,
    pub data_repository_path: String,
    pub batch_import_meta_data_on_create: bool,
    pub s3: S3DataRepositoryConfiguration,
    pub client_request_token: String,
    pub tags: Vec<Tag>,
}

/// `S3` of CreateDataRepositoryAssociation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
#[expect(missing_docs, reason = "the API's own documentation says what each member is")]
pub struct S3DataRepositoryConfiguration {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_import_policy: Option<Events>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_export_policy: Option<Events>,
}

/// The changes that an association synchronizes automatically.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
#[expect(missing_docs, reason = "the API's own documentation says what each member is")]
pub struct Events {
    pub events: Vec<&'static str>,
}

/// A link between a path of a file system and an S3 prefix: an `import`, an `export`, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The S3 prefix with a final `/`, as the service returns it.
    pub s3: String,
    /// The path in the file system: `/`, or `/a/b` without a final `/`.
    pub path: String,
    /// Whether S3 objects are imported into the file system.
    pub import: bool,
    /// Whether files are exported to S3.
    pub export: bool,
}

/// Returns the links of a file system, imports first, in the order of the manifest. An import and an export
/// of the same prefix and path are one association.
pub fn links(storage: &Storage, digest: &str) -> Vec<Link> {
    links_with(storage, Fill::Digest(digest))
}

fn links_with(storage: &Storage, fill: Fill) -> Vec<Link> {
    let mut out: Vec<Link> = Vec::new();
    let mut add = |written: &StorageLink, import: bool| {
        let Some(s3) = fill.field(&written.s3) else { return };
        let s3 = format!("{}/", s3.trim_end_matches('/'));
        let path = format!("/{}", written.path.value().map_or("", String::as_str).trim_matches('/'));
        match out.iter_mut().find(|link| link.s3 == s3 && link.path == path) {
            Some(link) => {
                link.import |= import;
                link.export |= !import;
            }
            None => out.push(Link { s3, path, import, export: !import }),
        }
    };
    storage.imports.iter().for_each(|link| add(link, true));
    storage.exports.iter().for_each(|link| add(link, false));
    out
}

/// Returns the `storage` nodes for which trainc creates a file system.
pub(super) fn created_storages(plan: &Plan) -> impl Iterator<Item = &Storage> {
    let each = plan.created_file_systems().map(|(storage, _)| storage);
    each.filter(|storage| storage.kind.value().is_some_and(|kind| kind == "lustre"))
}

/// Returns all file systems that trainc creates for the plan. The job's digest is only in links and tags that
/// reference it.
pub fn file_systems(plan: &Plan, digest: &str) -> Vec<FileSystem> {
    created_storages(plan).filter_map(|storage| file_system(plan, storage, digest, 1)).collect()
}

/// Returns `fsx/<name>.json`, and `fsx/<name>.associations.json` if there are links.
pub(super) fn files(plan: &Plan, digest: &str) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    for system in file_systems(plan, digest) {
        out.push((format!("fsx/{}.json", system.name), canonical_json::to_file_bytes(&system.create)));
        if !system.associations.is_empty() {
            out.push((
                format!("fsx/{}.associations.json", system.name),
                canonical_json::to_file_bytes(&system.associations),
            ));
        }
    }
    out
}

/// Returns the requests for a storage node. Tags name the job that creates the file system; a job that shares
/// it later adds its own tag. A token is bound to the resource that it created: recreating a deleted file
/// system requires the next generation.
pub fn file_system(plan: &Plan, storage: &Storage, digest: &str, generation: u32) -> Option<FileSystem> {
    let name = storage.name.value()?.clone();
    let mut create = create(plan, storage);
    let identity = identity(plan, &name, storage, &create);
    create.tags = tags::resource_tags(plan, &format!("file-system/{name}"), digest, &identity);
    create.client_request_token = token("fs", &identity, generation);
    let associations = links(storage, digest)
        .into_iter()
        .map(|link| {
            let resource = format!("association/{}", association_name(&name, &link));
            let mut request = association(plan, &name, &link, &create.client_request_token);
            // The definition excludes the token, which changes with the generation of the file system.
            let definition =
                CreateDataRepositoryAssociation { client_request_token: String::new(), ..request.clone() };
            request.tags = tags::resource_tags(plan, &resource, digest, &definition);
            request
        })
        .collect();
    Some(FileSystem { name, create, associations })
}

fn create(plan: &Plan, storage: &Storage) -> CreateFileSystem {
    let network = plan.job.network.as_ref();
    let aws = |field: &trainc_ir::Field<String>| field.value().map(|word| to_api_constant(word));
    CreateFileSystem {
        client_request_token: String::new(),
        file_system_type: "LUSTRE".to_owned(),
        storage_capacity: storage.capacity_bytes.get().unwrap_or_default().div_ceil(GIB),
        storage_type: storage.fsx_storage_type().unwrap_or_default(),
        // Lustre accepts exactly one: the file servers are in its zone.
        subnet_ids: network
            .and_then(|network| network.subnets.first())
            .map(|val| val.value.clone())
            .into_iter()
            .collect(),
        security_group_ids: network
            .map(|network| network.security_groups.iter().map(|val| val.value.clone()).collect())
            .unwrap_or_default(),
        tags: Vec::new(),
        kms_key_id: storage.kms.text().map(str::to_owned),
        file_system_type_version: storage.lustre_version().to_owned(),
        lustre_configuration: LustreConfiguration {
            weekly_maintenance_start_time: storage.maintenance.value().cloned(),
            deployment_type: storage.fsx_deployment_type(),
            per_unit_storage_throughput: storage.throughput_mb_s_tib.get(),
            drive_cache_type: aws(&storage.drive_cache),
            data_compression_type: aws(&storage.compression),
            // False is the default, and only PERSISTENT_2 supports the member.
            efa_enabled: storage.efa.get().filter(|on| *on),
            metadata_configuration: storage.metadata_mode().map(metadata),
        },
    }
}

/// Converts `persistent-2` to the name in the API: `PERSISTENT_2`.
fn to_api_constant(word: &str) -> String {
    word.to_uppercase().replace('-', "_")
}

fn metadata(mode: MetadataMode) -> MetadataConfiguration {
    match mode {
        MetadataMode::Provisioned(iops) => {
            MetadataConfiguration { iops: Some(iops), mode: "USER_PROVISIONED".to_owned() }
        }
        MetadataMode::Automatic => MetadataConfiguration { iops: None, mode: "AUTOMATIC".to_owned() },
    }
}

/// Returns the identity of a file system: region, name, the settings that UpdateFileSystem cannot change, and
/// its links. Jobs with the same identity share the file system.
///
/// Capacity, throughput, compression, metadata, version and maintenance can change in place, so they are not
/// part of it; nor is anything else of a job, not even its name.
fn identity(plan: &Plan, name: &str, storage: &Storage, create: &CreateFileSystem) -> String {
    let lustre = &create.lustre_configuration;
    let word = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut out = vec![
        "file-system".to_owned(),
        names::region(plan).to_owned(),
        name.to_owned(),
        word(&lustre.deployment_type),
        create.storage_type.clone(),
        create.subnet_ids.join(","),
        word(&create.kms_key_id),
        word(&lustre.drive_cache_type),
        lustre.efa_enabled.unwrap_or_default().to_string(),
    ];
    let mut groups: Vec<&str> = create.security_group_ids.iter().map(String::as_str).collect();
    groups.sort_unstable();
    out.push(groups.join(","));
    let mut links = links_with(storage, Fill::Mark);
    links.sort_by(|a, b| (&a.path, &a.s3).cmp(&(&b.path, &b.s3)));
    for Link { s3, path, import, export } in &links {
        out.push(format!("{path} {s3} {import} {export}"));
    }
    out.join("\n")
}

/// Returns a ClientRequestToken: the same for the same identity, so that a repeated call is idempotent.
fn token(kind: &str, identity: &str, generation: u32) -> String {
    let digest = sha256_hex(identity.as_bytes());
    format!("trainc-{kind}-{}-{generation}", digest.get(..TOKEN_DIGITS).unwrap_or(&digest))
}

/// Returns the token of another generation of the same resource.
pub fn next_token(token: &str, generation: u32) -> String {
    let stem = token.rsplit_once('-').map_or(token, |(stem, _)| stem);
    format!("{stem}-{generation}")
}

/// Returns the token of an association of an existing file system.
pub fn association_token(file_system: &str, path: &str, s3: &str, generation: u32) -> String {
    token("dra", &["association", file_system, path, s3].join("\n"), generation)
}

fn association(plan: &Plan, name: &str, link: &Link, file_system: &str) -> CreateDataRepositoryAssociation {
    const ALL: [&str; 3] = ["NEW", "CHANGED", "DELETED"];
    // With an import, deleting a file must not delete the user's object in S3. Without one, the file system
    // holds only files of the job, so deletions are exported and old checkpoints are deleted in S3 as well.
    let exported: &[&str] = if link.import { &["NEW", "CHANGED"] } else { &ALL };
    // The identity includes the file system's token: a new file system requires new associations.
    let identity = ["association", file_system, &link.path, &link.s3].join("\n");
    CreateDataRepositoryAssociation {
        file_system_id: names::storage_id(plan, name),
        file_system_path: link.path.clone(),
        data_repository_path: link.s3.clone(),
        batch_import_meta_data_on_create: link.import,
        s3: S3DataRepositoryConfiguration {
            auto_import_policy: link.import.then(|| Events { events: ALL.to_vec() }),
            auto_export_policy: link.export.then(|| Events { events: exported.to_vec() }),
        },
        client_request_token: token("dra", &identity, 1),
        tags: Vec::new(),
    }
}

/// Returns the name of an association: the storage and the first 8 of a digest of path and prefix, since a
/// path may contain characters that are invalid in a tag.
pub(super) fn association_name(storage: &str, link: &Link) -> String {
    let digest = sha256_hex(format!("{}\n{}", link.path, link.s3).as_bytes());
    format!("{storage}/{}", digest.get(..8).unwrap_or(&digest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use serde_json::json;

    fn systems(more: &str) -> Vec<FileSystem> {
        file_systems(&sample::plan_with_all_nodes("full", more), "d1ge57")
    }

    #[test]
    fn requests_contain_only_what_is_written() {
        let systems = systems("");
        assert_eq!(
            systems.iter().map(|system| system.name.as_str()).collect::<Vec<_>>(),
            ["corpus", "cold"],
            "`old` exists"
        );
        let mut corpus = serde_json::to_value(&systems[0].create).unwrap();
        corpus.as_object_mut().unwrap().remove("Tags");
        let token = &systems[0].create.client_request_token;
        assert_eq!(
            corpus,
            json!({
                "ClientRequestToken": token,
                "FileSystemType": "LUSTRE",
                "StorageCapacity": 4800,
                "StorageType": "SSD",
                "SubnetIds": ["subnet-0123456789abcdef0"],
                "SecurityGroupIds": ["sg-0123456789abcdef0"],
                "KmsKeyId": "1234abcd-12ab-34cd-56ef-1234567890ab",
                "FileSystemTypeVersion": "2.15",
                "LustreConfiguration": {
                    "DeploymentType": "PERSISTENT_2",
                    "PerUnitStorageThroughput": 250,
                    "DataCompressionType": "LZ4",
                    "WeeklyMaintenanceStartTime": "7:02:00",
                    "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 6000},
                },
            })
        );
        let cold = serde_json::to_value(&systems[1].create).unwrap();
        assert_eq!(cold["StorageType"], "HDD");
        assert_eq!(
            cold["LustreConfiguration"],
            json!({"DeploymentType": "PERSISTENT_1", "PerUnitStorageThroughput": 12, "DriveCacheType": "READ"})
        );
        assert_eq!(cold["FileSystemTypeVersion"], "2.10");
        assert!(systems[1].associations.is_empty());
    }

    #[test]
    fn an_import_and_an_export_of_one_pair_are_one_association() {
        let links = &systems("")[0].associations;
        assert_eq!(links.len(), 2);
        assert_eq!(
            (links[0].file_system_path.as_str(), links[0].data_repository_path.as_str()),
            ("/tokens", "s3://example-corpus/tokens/")
        );
        assert_eq!(links[0].file_system_id, "${fsx.corpus.id}");
        assert!(links[0].batch_import_meta_data_on_create && !links[1].batch_import_meta_data_on_create);
        let events = |policy: &Option<Events>| policy.as_ref().map_or(0, |policy| policy.events.len());
        assert_eq!(
            (events(&links[0].s3.auto_import_policy), events(&links[0].s3.auto_export_policy)),
            (3, 2)
        );
        assert_eq!(
            (events(&links[1].s3.auto_import_policy), events(&links[1].s3.auto_export_policy)),
            (0, 3)
        );
        assert_eq!(links[1].data_repository_path, "s3://example-runs/d1ge57/spill/");
    }

    #[test]
    fn the_token_belongs_to_the_object_not_to_the_run() {
        let token = |more: &str| systems(more)[0].create.client_request_token.clone();
        let first = token("");
        assert!(
            first.len() <= 63 && first.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b)),
            "{first}"
        );
        assert_eq!(first, token("train { optimizer \"adamw\" lr=1e-4; }"), "an edited learning rate");
        assert_eq!(
            first,
            token("storage \"lustre\" name=\"corpus\" capacity=\"7200GiB\" throughput=500"),
            "what can change in place"
        );
        assert_ne!(first, token("storage \"lustre\" name=\"corpus\" kms=\"alias/other\""), "what cannot");
        let plan = sample::plan_with_all_nodes("full", "");
        let second = file_system(&plan, &plan.job.storage[0], "", 2).unwrap();
        assert_ne!(first, second.create.client_request_token);
        assert_ne!(
            second.associations[0].client_request_token,
            systems("")[0].associations[0].client_request_token
        );
    }

    #[test]
    fn the_version_is_what_the_links_and_the_metadata_need() {
        let version = |more: &str| {
            let text = format!("storage \"lustre\" name=\"s\" capacity=\"1200GiB\" {more}");
            file_systems(&sample::small_plan("v", &text), "")[0].create.file_system_type_version.clone()
        };
        assert_eq!(version("deployment=\"scratch-2\""), "2.10");
        assert_eq!(version("deployment=\"scratch-2\" { import \"s3://b/a/\"; }"), "2.12");
        assert_eq!(version("deployment=\"persistent-2\" throughput=250"), "2.12");
        assert_eq!(version("deployment=\"persistent-2\" throughput=250 { efa #true; }"), "2.15");
        assert_eq!(version("deployment=\"scratch-2\" version=\"2.15\""), "2.15");
    }
}
