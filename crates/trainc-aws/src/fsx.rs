//! FSx for Lustre: file systems and their data repository associations.

use super::errors::fault;
use super::raw_body::RequestBody;
use aws_sdk_fsx::Client;
use aws_sdk_fsx::types::{
    DataCompressionType, DataRepositoryAssociation, EventType, Filter, FilterName, MetadataConfigurationMode,
    Tag, UpdateFileSystemLustreConfiguration, UpdateFileSystemLustreMetadataConfiguration,
};
use trainc_apply::account::{Association, FileSystem, FileSystemChange, Tags};
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::{Class, Fault};
use trainc_emit::fsx::{CreateDataRepositoryAssociation, CreateFileSystem};

pub(super) async fn file_systems(client: &Client) -> Answer<Vec<FileSystem>> {
    let call = Call::DescribeFileSystems;
    let pages = client.describe_file_systems().into_paginator().send();
    let found = pages.collect::<Result<Vec<_>, _>>().await.map_err(|error| fault(call, &error))?;
    Ok(found
        .iter()
        .flat_map(aws_sdk_fsx::operation::describe_file_systems::DescribeFileSystemsOutput::file_systems)
        .map(file_system_of)
        .collect())
}

pub(super) async fn file_system(client: &Client, id: &str) -> Answer<FileSystem> {
    let call = Call::DescribeFileSystems;
    let asked = client.describe_file_systems().file_system_ids(id);
    let answer = asked.send().await.map_err(|error| fault(call, &error))?;
    let missing = || Fault::new(call, Class::NotFound, &format!("file system `{id}` does not exist"));
    answer.file_systems().first().map(file_system_of).ok_or_else(missing)
}

fn file_system_of(found: &aws_sdk_fsx::types::FileSystem) -> FileSystem {
    let lustre = found.lustre_configuration();
    let metadata = lustre.and_then(|lustre| lustre.metadata_configuration());
    let unsigned = |value: i32| u64::try_from(value).unwrap_or(0);
    FileSystem {
        id: text(found.file_system_id()),
        arn: text(found.resource_arn()),
        lifecycle: found.lifecycle().map_or_else(String::new, |value| value.as_str().to_owned()),
        failure: found.failure_details().and_then(|details| details.message()).map(str::to_owned),
        kind: found.file_system_type().map_or_else(String::new, |value| value.as_str().to_owned()),
        capacity_gib: found.storage_capacity().map_or(0, unsigned),
        storage_type: found.storage_type().map_or_else(String::new, |value| value.as_str().to_owned()),
        version: found.file_system_type_version().map(str::to_owned),
        subnets: found.subnet_ids().to_vec(),
        vpc: found.vpc_id().map(str::to_owned),
        interfaces: found.network_interface_ids().to_vec(),
        kms: found.kms_key_id().map(str::to_owned),
        mount: lustre.and_then(|lustre| lustre.mount_name()).map(str::to_owned),
        deployment: lustre.and_then(|lustre| lustre.deployment_type()).map(|value| value.as_str().to_owned()),
        throughput: lustre
            .and_then(aws_sdk_fsx::types::LustreFileSystemConfiguration::per_unit_storage_throughput)
            .map(unsigned),
        compression: lustre
            .and_then(|lustre| lustre.data_compression_type())
            .map(|value| value.as_str().to_owned()),
        drive_cache: lustre
            .and_then(|lustre| lustre.drive_cache_type())
            .map(|value| value.as_str().to_owned()),
        efa: lustre.and_then(aws_sdk_fsx::types::LustreFileSystemConfiguration::efa_enabled),
        metadata_iops: metadata
            .and_then(aws_sdk_fsx::types::FileSystemLustreMetadataConfiguration::iops)
            .map(unsigned),
        metadata_mode: metadata.and_then(|metadata| metadata.mode()).map(|mode| mode.as_str().to_owned()),
        maintenance: lustre.and_then(|lustre| lustre.weekly_maintenance_start_time()).map(str::to_owned),
        created: found.creation_time().map(aws_smithy_types::DateTime::as_secs_f64),
        tags: tags_of(found.tags()),
    }
}

pub(super) async fn associations(client: &Client, file_system: &str) -> Answer<Vec<Association>> {
    let call = Call::DescribeDataRepositoryAssociations;
    let filter = Filter::builder().name(FilterName::FileSystemId).values(file_system).build();
    let pages = client.describe_data_repository_associations().filters(filter).into_paginator().send();
    let found = pages.collect::<Result<Vec<_>, _>>().await.map_err(|error| fault(call, &error))?;
    Ok(found.iter().flat_map(aws_sdk_fsx::operation::describe_data_repository_associations::DescribeDataRepositoryAssociationsOutput::associations).map(association_of).collect())
}

fn association_of(found: &DataRepositoryAssociation) -> Association {
    let events = |events: &[EventType]| events.iter().map(|event| event.as_str().to_owned()).collect();
    let s3 = found.s3();
    Association {
        id: text(found.association_id()),
        arn: text(found.resource_arn()),
        file_system: text(found.file_system_id()),
        lifecycle: found.lifecycle().map_or_else(String::new, |value| value.as_str().to_owned()),
        failure: found.failure_details().and_then(|details| details.message()).map(str::to_owned),
        path: text(found.file_system_path()),
        s3: text(found.data_repository_path()),
        import: s3
            .and_then(|s3| s3.auto_import_policy())
            .map(|policy| events(policy.events()))
            .unwrap_or_default(),
        export: s3
            .and_then(|s3| s3.auto_export_policy())
            .map(|policy| events(policy.events()))
            .unwrap_or_default(),
        tags: tags_of(found.tags()),
    }
}

/// Sends the emitted request unchanged; members that the SDK's builder requires are set in addition.
pub(super) async fn create_file_system(client: &Client, request: &CreateFileSystem) -> Answer<String> {
    let call = Call::CreateFileSystem;
    let asked = client.create_file_system().client_request_token(&request.client_request_token);
    let sent = asked.customize().interceptor(RequestBody::from_json(request)).send().await;
    let answer = sent.map_err(|error| fault(call, &error))?;
    let id = answer.file_system().and_then(|system| system.file_system_id());
    id.map(str::to_owned)
        .ok_or_else(|| Fault::new(call, Class::NoResponse, "the response contains no file system"))
}

pub(super) async fn update_file_system(client: &Client, id: &str, change: &FileSystemChange) -> Answer<()> {
    let call = Call::UpdateFileSystem;
    let signed = |value: u64| i32::try_from(value).unwrap_or(i32::MAX);
    let metadata = change.metadata_iops.map(|iops| {
        UpdateFileSystemLustreMetadataConfiguration::builder()
            .mode(MetadataConfigurationMode::UserProvisioned)
            .iops(signed(iops))
            .build()
    });
    let lustre = UpdateFileSystemLustreConfiguration::builder()
        .set_weekly_maintenance_start_time(change.maintenance.clone())
        .set_data_compression_type(change.compression.as_deref().map(DataCompressionType::from))
        .set_per_unit_storage_throughput(change.throughput.map(signed))
        .set_metadata_configuration(metadata)
        .build();
    let asked = client
        .update_file_system()
        .file_system_id(id)
        .set_storage_capacity(change.capacity_gib.map(signed))
        .set_file_system_type_version(change.version.clone());
    let some_of_lustre = change.maintenance.is_some()
        || change.compression.is_some()
        || change.throughput.is_some()
        || change.metadata_iops.is_some();
    let asked = if some_of_lustre { asked.lustre_configuration(lustre) } else { asked };
    asked.send().await.map_err(|error| fault(call, &error))?;
    Ok(())
}

pub(super) async fn tag(client: &Client, arn: &str, tags: &Tags) -> Answer<()> {
    let call = Call::TagResource;
    let mut asked = client.tag_resource().resource_arn(arn);
    for (key, value) in tags {
        asked = asked.tags(Tag::builder().key(key).value(value).build());
    }
    asked.send().await.map_err(|error| fault(call, &error))?;
    Ok(())
}

pub(super) async fn untag(client: &Client, arn: &str, keys: &[String]) -> Answer<()> {
    let asked = client.untag_resource().resource_arn(arn).set_tag_keys(Some(keys.to_vec()));
    asked.send().await.map_err(|error| fault(Call::UntagResource, &error))?;
    Ok(())
}

pub(super) async fn delete_file_system(client: &Client, id: &str) -> Answer<()> {
    let asked = client.delete_file_system().file_system_id(id);
    asked.send().await.map_err(|error| fault(Call::DeleteFileSystem, &error))?;
    Ok(())
}

/// Sends the emitted request unchanged.
pub(super) async fn create_association(
    client: &Client,
    request: &CreateDataRepositoryAssociation,
) -> Answer<String> {
    let call = Call::CreateDataRepositoryAssociation;
    let asked = client
        .create_data_repository_association()
        .file_system_id(&request.file_system_id)
        .data_repository_path(&request.data_repository_path)
        .client_request_token(&request.client_request_token);
    let sent = asked.customize().interceptor(RequestBody::from_json(request)).send().await;
    let answer = sent.map_err(|error| fault(call, &error))?;
    let id = answer.association().and_then(|association| association.association_id());
    id.map(str::to_owned)
        .ok_or_else(|| Fault::new(call, Class::NoResponse, "the response contains no association"))
}

/// Deletes an association; its files stay in the file system.
pub(super) async fn delete_association(client: &Client, id: &str) -> Answer<()> {
    let asked =
        client.delete_data_repository_association().association_id(id).delete_data_in_file_system(false);
    asked.send().await.map_err(|error| fault(Call::DeleteDataRepositoryAssociation, &error))?;
    Ok(())
}

fn text(value: Option<&str>) -> String {
    value.unwrap_or_default().to_owned()
}

fn tags_of(tags: &[Tag]) -> Tags {
    tags.iter().map(|tag| (text(tag.key()), text(tag.value()))).collect()
}
