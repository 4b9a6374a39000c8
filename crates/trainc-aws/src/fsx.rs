//! FSx for Lustre: file systems and their data repository associations.

use super::client::{Client, List, members};
use super::errors::foreign_answer;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use trainc_apply::account::{Association, FileSystem, FileSystemChange, Tags};
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::{Class, Fault};
use trainc_emit::fsx::{CreateDataRepositoryAssociation, CreateFileSystem};

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FileSystemAnswer {
    file_system_id: String,
    #[serde(rename = "ResourceARN")]
    resource_arn: Option<String>,
    lifecycle: Option<String>,
    failure_details: Option<FailureAnswer>,
    file_system_type: Option<String>,
    storage_capacity: Option<u32>,
    storage_type: Option<String>,
    file_system_type_version: Option<String>,
    subnet_ids: Option<Vec<String>>,
    vpc_id: Option<String>,
    network_interface_ids: Option<Vec<String>>,
    kms_key_id: Option<String>,
    lustre_configuration: Option<LustreAnswer>,
    creation_time: Option<f64>,
    tags: Option<Vec<TagAnswer>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LustreAnswer {
    mount_name: Option<String>,
    deployment_type: Option<String>,
    per_unit_storage_throughput: Option<u32>,
    data_compression_type: Option<String>,
    drive_cache_type: Option<String>,
    efa_enabled: Option<bool>,
    metadata_configuration: Option<MetadataAnswer>,
    weekly_maintenance_start_time: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MetadataAnswer {
    iops: Option<u32>,
    mode: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FailureAnswer {
    message: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TagAnswer {
    key: Option<String>,
    value: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AssociationAnswer {
    association_id: String,
    #[serde(rename = "ResourceARN")]
    resource_arn: Option<String>,
    file_system_id: Option<String>,
    lifecycle: Option<String>,
    failure_details: Option<FailureAnswer>,
    file_system_path: Option<String>,
    data_repository_path: Option<String>,
    #[serde(rename = "S3")]
    s3: Option<S3Answer>,
    tags: Option<Vec<TagAnswer>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct S3Answer {
    auto_import_policy: Option<EventsAnswer>,
    auto_export_policy: Option<EventsAnswer>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EventsAnswer {
    events: Option<Vec<String>>,
}

/// The response to a creation: nothing else of it is read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CreatedSystemAnswer {
    file_system: SystemIdAnswer,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SystemIdAnswer {
    file_system_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CreatedAssociationAnswer {
    association: AssociationIdAnswer,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AssociationIdAnswer {
    association_id: String,
}

pub(super) async fn file_systems(client: &Client) -> Answer<Vec<FileSystem>> {
    list_file_systems(client, Map::new()).await
}

/// An ID that does not exist is an error of the service, so an empty list says nothing about it.
pub(super) async fn file_system(client: &Client, id: &str) -> Answer<FileSystem> {
    let asked = members([("FileSystemIds", Some(json!([id])))]);
    let found = list_file_systems(client, asked).await?.into_iter().next();
    found.ok_or_else(|| foreign_answer(Call::DescribeFileSystems, 200))
}

async fn list_file_systems(client: &Client, asked: Map<String, Value>) -> Answer<Vec<FileSystem>> {
    let found: Vec<FileSystemAnswer> =
        client.json_list(Call::DescribeFileSystems, asked, List::Optional("FileSystems")).await?;
    Ok(found.into_iter().map(file_system_of).collect())
}

fn file_system_of(found: FileSystemAnswer) -> FileSystem {
    let lustre = found.lustre_configuration.unwrap_or_default();
    let metadata = lustre.metadata_configuration.unwrap_or_default();
    FileSystem {
        id: found.file_system_id,
        arn: found.resource_arn.unwrap_or_default(),
        lifecycle: found.lifecycle.unwrap_or_default(),
        failure: found.failure_details.and_then(|details| details.message),
        kind: found.file_system_type.unwrap_or_default(),
        capacity_gib: found.storage_capacity.map_or(0, u64::from),
        storage_type: found.storage_type.unwrap_or_default(),
        version: found.file_system_type_version,
        subnets: found.subnet_ids.unwrap_or_default(),
        vpc: found.vpc_id,
        interfaces: found.network_interface_ids.unwrap_or_default(),
        kms: found.kms_key_id,
        mount: lustre.mount_name,
        deployment: lustre.deployment_type,
        throughput: lustre.per_unit_storage_throughput.map(u64::from),
        compression: lustre.data_compression_type,
        drive_cache: lustre.drive_cache_type,
        efa: lustre.efa_enabled,
        metadata_iops: metadata.iops.map(u64::from),
        metadata_mode: metadata.mode,
        maintenance: lustre.weekly_maintenance_start_time,
        created: found.creation_time,
        tags: tags_of(found.tags),
    }
}

pub(super) async fn associations(client: &Client, file_system: &str) -> Answer<Vec<Association>> {
    let filter = json!([{ "Name": "file-system-id", "Values": [file_system] }]);
    let asked = members([("Filters", Some(filter))]);
    let call = Call::DescribeDataRepositoryAssociations;
    let found: Vec<AssociationAnswer> = client.json_list(call, asked, List::Optional("Associations")).await?;
    Ok(found.into_iter().map(association_of).collect())
}

fn association_of(found: AssociationAnswer) -> Association {
    let s3 = found.s3.unwrap_or_default();
    let events = |policy: Option<EventsAnswer>| policy.and_then(|policy| policy.events).unwrap_or_default();
    Association {
        id: found.association_id,
        arn: found.resource_arn.unwrap_or_default(),
        file_system: found.file_system_id.unwrap_or_default(),
        lifecycle: found.lifecycle.unwrap_or_default(),
        failure: found.failure_details.and_then(|details| details.message),
        path: found.file_system_path.unwrap_or_default(),
        s3: found.data_repository_path.unwrap_or_default(),
        import: events(s3.auto_import_policy),
        export: events(s3.auto_export_policy),
        tags: tags_of(found.tags),
    }
}

/// Sends the emitted request unchanged.
pub(super) async fn create_file_system(client: &Client, request: &CreateFileSystem) -> Answer<String> {
    let answer: CreatedSystemAnswer = client.json(Call::CreateFileSystem, request).await?;
    Ok(answer.file_system.file_system_id)
}

pub(super) async fn update_file_system(client: &Client, id: &str, change: &FileSystemChange) -> Answer<()> {
    let metadata = change.metadata_iops.map(|iops| json!({ "Mode": "USER_PROVISIONED", "Iops": iops }));
    let lustre = members([
        ("WeeklyMaintenanceStartTime", change.maintenance.clone().map(Value::from)),
        ("DataCompressionType", change.compression.clone().map(Value::from)),
        ("PerUnitStorageThroughput", change.throughput.map(Value::from)),
        ("MetadataConfiguration", metadata),
    ]);
    let asked = members([
        ("FileSystemId", Some(id.into())),
        ("StorageCapacity", change.capacity_gib.map(Value::from)),
        ("FileSystemTypeVersion", change.version.clone().map(Value::from)),
        ("LustreConfiguration", Some(lustre).filter(|lustre| !lustre.is_empty()).map(Value::Object)),
        ("ClientRequestToken", Some(request_token(Call::UpdateFileSystem)?.into())),
    ]);
    client.tell(Call::UpdateFileSystem, &asked).await
}

/// Returns a random token, with which a request that is sent again is carried out once.
fn request_token(call: Call) -> Answer<String> {
    let random = getrandom::u64().map_err(|error| Fault::new(call, Class::Bug, &error.to_string()))?;
    Ok(format!("trainc-{random:016x}"))
}

pub(super) async fn tag(client: &Client, arn: &str, tags: &Tags) -> Answer<()> {
    let tags: Vec<Value> = tags.iter().map(|(key, value)| json!({ "Key": key, "Value": value })).collect();
    client.tell(Call::TagResource, &json!({ "ResourceARN": arn, "Tags": tags })).await
}

pub(super) async fn untag(client: &Client, arn: &str, keys: &[String]) -> Answer<()> {
    client.tell(Call::UntagResource, &json!({ "ResourceARN": arn, "TagKeys": keys })).await
}

pub(super) async fn delete_file_system(client: &Client, id: &str) -> Answer<()> {
    let call = Call::DeleteFileSystem;
    let asked = json!({ "FileSystemId": id, "ClientRequestToken": request_token(call)? });
    client.tell(call, &asked).await
}

/// Sends the emitted request unchanged.
pub(super) async fn create_association(
    client: &Client,
    request: &CreateDataRepositoryAssociation,
) -> Answer<String> {
    let answer: CreatedAssociationAnswer =
        client.json(Call::CreateDataRepositoryAssociation, request).await?;
    Ok(answer.association.association_id)
}

/// Deletes an association; its files stay in the file system.
pub(super) async fn delete_association(client: &Client, id: &str) -> Answer<()> {
    let call = Call::DeleteDataRepositoryAssociation;
    let token = request_token(call)?;
    let asked = json!({ "AssociationId": id, "DeleteDataInFileSystem": false, "ClientRequestToken": token });
    client.tell(call, &asked).await
}

fn tags_of(tags: Option<Vec<TagAnswer>>) -> Tags {
    let pair = |tag: TagAnswer| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default());
    tags.unwrap_or_default().into_iter().map(pair).collect()
}
