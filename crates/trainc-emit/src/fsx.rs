//! FSx for Lustre: CreateFileSystem and CreateDataRepositoryAssociation, member by member, by the API's own names
//! (botocore 1.44.5, `fsx` 2018-03-01).
//!
//! File systems that exist already (`id=`) are none of this file's business, nor are EFS file systems: trainc
//! mounts both, and makes neither.

use super::request::Tag;
use super::{canonical, names, tags};
use serde::Serialize;
use trainc_ir::digest::sha256_hex;
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::size::GIB;
use trainc_ir::{Plan, Storage, StorageLink};

/// Hexadecimal digits of a token: with the words around it, below the service's 63 characters.
const TOKEN_DIGITS: usize = 40;

/// A file system that trainc makes, with its links.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSystem {
    /// Its name in the manifest.
    pub name: String,
    /// The request that makes it.
    pub create: CreateFileSystem,
    /// The requests that link it to S3, in the order written.
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

/// Which changes an association follows by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
#[expect(missing_docs, reason = "the API's own documentation says what each member is")]
pub struct Events {
    pub events: Vec<&'static str>,
}

/// One link between a path of a file system and an S3 prefix: an `import`, an `export`, or both of the same pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The S3 prefix, with a final `/`: the service adds it, and comparing needs one form.
    pub s3: String,
    /// The path in the file system: `/`, or `/a/b` without a final `/`.
    pub path: String,
    /// Whether S3 appears in the file system.
    pub import: bool,
    /// Whether the file system is written back to S3.
    pub export: bool,
}

/// The links of a file system, in the order written, imports first; the same pair of prefix and path is one
/// association that goes both ways.
pub fn links(storage: &Storage, digest: &str) -> Vec<Link> {
    let mut out: Vec<Link> = Vec::new();
    let mut add = |written: &StorageLink, import: bool| {
        let Some(s3) = written.s3.value() else { return };
        let s3 = format!("{}/", s3.trim_end_matches('/').replace(DIGEST_MARK, digest));
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

/// The storages for which trainc makes a file system.
pub(super) fn made(plan: &Plan) -> impl Iterator<Item = &Storage> {
    plan.job.storage.iter().filter(|storage| {
        plan.deployable
            && storage.id.value().is_none()
            && storage.kind.value().is_some_and(|kind| kind == "lustre")
    })
}

/// Every file system that trainc makes for the plan. The job's digest stands only where a manifest writes it, in a
/// link or a tag.
pub fn file_systems(plan: &Plan, digest: &str) -> Vec<FileSystem> {
    made(plan).filter_map(|storage| file_system(plan, storage, digest, 1)).collect()
}

/// `fsx/<name>.json`, and `fsx/<name>.associations.json` where there are links.
pub(super) fn files(plan: &Plan, digest: &str) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    for system in file_systems(plan, digest) {
        out.push((format!("fsx/{}.json", system.name), canonical::file(&system.create)));
        if !system.associations.is_empty() {
            out.push((
                format!("fsx/{}.associations.json", system.name),
                canonical::file(&system.associations),
            ));
        }
    }
    out
}

/// The requests for one storage. The tags that name the job are those of whoever makes it: a job that shares it later adds
/// one of its own. A token belongs to the object that it made and dies with it: to make a file system
/// again after it was deleted, take the next generation.
pub fn file_system(plan: &Plan, storage: &Storage, digest: &str, generation: u32) -> Option<FileSystem> {
    let name = storage.name.value()?.clone();
    let mut create = create(plan, storage);
    let identity = identity(plan, &name, storage, &create);
    create.tags = tags::of(plan, &format!("file-system/{name}"), digest, &identity);
    create.client_request_token = token("fs", &identity, generation);
    let associations = links(storage, digest)
        .into_iter()
        .map(|link| {
            let resource = format!("association/{}", association_name(&name, &link));
            let mut made = association(plan, &name, &link, &create.client_request_token);
            // The token follows the file system's generation: the link is the same in each.
            let definition =
                CreateDataRepositoryAssociation { client_request_token: String::new(), ..made.clone() };
            made.tags = tags::of(plan, &resource, digest, &definition);
            made
        })
        .collect();
    Some(FileSystem { name, create, associations })
}

fn create(plan: &Plan, storage: &Storage) -> CreateFileSystem {
    let network = plan.job.network.as_ref();
    let aws = |field: &trainc_ir::Field<String>| field.value().map(|word| aws_word(word));
    CreateFileSystem {
        client_request_token: String::new(),
        file_system_type: "LUSTRE".to_owned(),
        storage_capacity: storage.capacity_bytes.get().unwrap_or_default().div_ceil(GIB),
        storage_type: aws(&storage.storage_type).unwrap_or_else(|| "SSD".to_owned()),
        // Lustre takes exactly one: the file servers stand in its zone.
        subnet_ids: network
            .and_then(|network| network.subnets.first())
            .map(|val| val.value.clone())
            .into_iter()
            .collect(),
        security_group_ids: network
            .map(|network| network.security_groups.iter().map(|val| val.value.clone()).collect())
            .unwrap_or_default(),
        tags: Vec::new(),
        kms_key_id: storage.kms.value().cloned(),
        file_system_type_version: version(storage).to_owned(),
        lustre_configuration: LustreConfiguration {
            weekly_maintenance_start_time: storage.maintenance.value().cloned(),
            deployment_type: aws(&storage.deployment),
            per_unit_storage_throughput: storage.throughput_mb_s_tib.get(),
            drive_cache_type: aws(&storage.drive_cache),
            data_compression_type: aws(&storage.compression),
            // False is what the service does anyway, and only PERSISTENT_2 knows the member.
            efa_enabled: storage.efa.get().filter(|on| *on),
            metadata_configuration: metadata(storage),
        },
    }
}

/// `persistent-2` as the API says it: `PERSISTENT_2`.
fn aws_word(word: &str) -> String {
    word.to_uppercase().replace('-', "_")
}

/// An EFA file system needs a metadata configuration (FSx API reference, `EfaEnabled`), so one that says nothing of
/// metadata gets the automatic one.
fn metadata(storage: &Storage) -> Option<MetadataConfiguration> {
    match storage.metadata_iops.get() {
        Some(iops) => Some(MetadataConfiguration { iops: Some(iops), mode: "USER_PROVISIONED".to_owned() }),
        None if storage.efa.get() == Some(true) => {
            Some(MetadataConfiguration { iops: None, mode: "AUTOMATIC".to_owned() })
        }
        None => None,
    }
}

/// The Lustre version: as written, else what the service would take by itself, raised where the job needs more. It
/// is always sent, so that a default that moves does not change a file system.
///
/// The service takes 2.10, for PERSISTENT_2 2.12, and with a metadata configuration 2.15 (botocore 1.44.5,
/// `FileSystemTypeVersion`); data repository associations need 2.12 (user guide for Lustre, "Linking your file
/// system to an S3 bucket").
fn version(storage: &Storage) -> &str {
    if let Some(written) = storage.version.value() {
        return written;
    }
    let persistent_2 = storage.deployment.value().is_some_and(|deployment| deployment == "persistent-2");
    let linked = !storage.imports.is_empty() || !storage.exports.is_empty();
    if metadata(storage).is_some() {
        "2.15"
    } else if persistent_2 || linked {
        "2.12"
    } else {
        "2.10"
    }
}

/// What makes a file system the one that it is: where it is, its name, the settings that UpdateFileSystem cannot change,
/// and what it is linked to. Jobs that agree in all of that share one.
///
/// Capacity, throughput, compression, metadata, version and maintenance can change in place, so they make no other
/// file system; nor does anything else of a job, not even its name.
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
    let mut links = links(storage, DIGEST_MARK);
    links.sort_by(|a, b| (&a.path, &a.s3).cmp(&(&b.path, &b.s3)));
    for Link { s3, path, import, export } in &links {
        out.push(format!("{path} {s3} {import} {export}"));
    }
    out.join("\n")
}

/// A ClientRequestToken: the same for the same identity, so that a repeated call finds what the first one made.
fn token(kind: &str, identity: &str, generation: u32) -> String {
    let digest = sha256_hex(identity.as_bytes());
    format!("trainc-{kind}-{}-{generation}", digest.get(..TOKEN_DIGITS).unwrap_or(&digest))
}

/// The token of a later generation of the same object: a token dies with the object that it made.
pub fn next_token(token: &str, generation: u32) -> String {
    let stem = token.rsplit_once('-').map_or(token, |(stem, _)| stem);
    format!("{stem}-{generation}")
}

/// The token of an association of a file system that exists: another file system needs other associations.
pub fn association_token(file_system: &str, path: &str, s3: &str, generation: u32) -> String {
    token("dra", &["association", file_system, path, s3].join("\n"), generation)
}

fn association(plan: &Plan, name: &str, link: &Link, file_system: &str) -> CreateDataRepositoryAssociation {
    const ALL: [&str; 3] = ["NEW", "CHANGED", "DELETED"];
    // Of what was imported, the program deletes its copy and S3 keeps the user's. Where nothing is imported, the
    // file system holds only what the job wrote, so S3 follows it and old checkpoints go there too.
    let exported: &[&str] = if link.import { &["NEW", "CHANGED"] } else { &ALL };
    // The file system's token is part of the identity: a new file system needs new associations.
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

/// What an association is called: the storage and the first 8 of a digest of the pair that it links. A path may hold
/// characters that a tag may not.
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
        file_systems(&sample::full("full", more), "d1ge57")
    }

    #[test]
    fn what_is_written_is_asked_for_and_nothing_else() {
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
        let plan = sample::full("full", "");
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
            file_systems(&sample::small("v", &text), "")[0].create.file_system_type_version.clone()
        };
        assert_eq!(version("deployment=\"scratch-2\""), "2.10");
        assert_eq!(version("deployment=\"scratch-2\" { import \"s3://b/a/\"; }"), "2.12");
        assert_eq!(version("deployment=\"persistent-2\" throughput=250"), "2.12");
        assert_eq!(version("deployment=\"persistent-2\" throughput=250 { efa #true; }"), "2.15");
        assert_eq!(version("deployment=\"scratch-2\" version=\"2.15\""), "2.15");
    }
}
