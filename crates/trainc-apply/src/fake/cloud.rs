//! Writing operations of the simulated account.

use super::Fake;
use super::observe::{etag, no_entity, no_job};
use super::state::{Account, AssociationState, FileSystemState, RoleState};
use crate::account::{Association, FileSystem, FileSystemChange, Role, Tags, Upload};
use crate::calls::Call;
use crate::cloud::{Answer, Cloud};
use crate::desired::{WantedKey, tags_of};
use crate::fault::Fault;
use serde_json::Value;
use trainc_emit::fsx::{CreateDataRepositoryAssociation, CreateFileSystem};
use trainc_emit::iam::CreateRole;

/// Seconds until an association is available, or a file system is deleted or updated.
const LINKING: f64 = 60.0;
const GOING: f64 = 90.0;

fn refused(call: Call, code: &str, text: &str) -> Fault {
    Fault::from_answer(call, Some(400), code, text)
}

impl Cloud for Fake {
    async fn create_role(&self, request: &CreateRole) -> Answer<()> {
        let (call, name) = (Call::CreateRole, request.role_name.as_str());
        self.call(call, name, |account, now| {
            if account.roles.contains_key(name) {
                let text = format!("Role with name {name} already exists.");
                return Err(Fault::from_answer(call, Some(409), "EntityAlreadyExists", &text));
            }
            let path = request.path.clone().unwrap_or_else(|| "/".to_owned());
            let role = Role {
                name: name.to_owned(),
                arn: format!("arn:aws:iam::{}:role{path}{name}", account.account),
                path,
                trust: request.assume_role_policy_document.clone(),
                boundary: request.permissions_boundary.clone(),
                tags: tags_of(&request.tags),
            };
            let state = RoleState { role, written: now, ..RoleState::default() };
            account.roles.insert(name.to_owned(), state);
            Ok(())
        })
        .await
    }

    async fn put_role_policy(&self, role: &str, policy: &str, document: &str) -> Answer<()> {
        let call = Call::PutRolePolicy;
        self.call(call, role, |account, now| {
            let state = account.roles.get_mut(role).ok_or_else(|| no_entity(call, role))?;
            state.policies.insert(policy.to_owned(), document.to_owned());
            state.written = now;
            Ok(())
        })
        .await
    }

    async fn update_trust(&self, role: &str, document: &str) -> Answer<()> {
        let call = Call::UpdateAssumeRolePolicy;
        self.call(call, role, |account, now| {
            let state = account.roles.get_mut(role).ok_or_else(|| no_entity(call, role))?;
            document.clone_into(&mut state.role.trust);
            state.written = now;
            Ok(())
        })
        .await
    }

    async fn tag_role(&self, role: &str, tags: &Tags) -> Answer<()> {
        let call = Call::TagRole;
        self.call(call, role, |account, _| {
            let state = account.roles.get_mut(role).ok_or_else(|| no_entity(call, role))?;
            state.role.tags.extend(tags.clone());
            Ok(())
        })
        .await
    }

    async fn delete_role_policy(&self, role: &str, policy: &str) -> Answer<()> {
        let call = Call::DeleteRolePolicy;
        self.call(call, role, |account, _| {
            let state = account.roles.get_mut(role).ok_or_else(|| no_entity(call, role))?;
            state.policies.remove(policy).map(|_| ()).ok_or_else(|| no_entity(call, policy))
        })
        .await
    }

    async fn delete_role(&self, role: &str) -> Answer<()> {
        let call = Call::DeleteRole;
        self.call(call, role, |account, _| {
            let state = account.roles.get(role).ok_or_else(|| no_entity(call, role))?;
            if !state.policies.is_empty() || !state.attached.is_empty() {
                let text = "Cannot delete entity, must delete policies first.";
                return Err(Fault::from_answer(call, Some(409), "DeleteConflict", text));
            }
            account.roles.remove(role);
            Ok(())
        })
        .await
    }

    async fn create_file_system(&self, request: &CreateFileSystem) -> Answer<String> {
        let call = Call::CreateFileSystem;
        let token = request.client_request_token.clone();
        let text = serde_json::to_string(request).unwrap_or_default();
        self.call(call, &request.client_request_token, |account, now| {
            if let Some(same) = account.file_systems.values().find(|state| state.token == token) {
                if same.request == text {
                    return Ok(same.system.id.clone());
                }
                let message = "The ClientRequestToken was used with other parameters.";
                return Err(refused(call, "IncompatibleParameterError", message));
            }
            let id = format!("fs-0{:016x}", account.next_number());
            let system = file_system(account, &id, request, now);
            let until = now + account.making_seconds;
            account.file_systems.insert(id.clone(), FileSystemState { system, token, request: text, until });
            Ok(id)
        })
        .await
    }

    async fn update_file_system(&self, id: &str, change: &FileSystemChange) -> Answer<()> {
        let call = Call::UpdateFileSystem;
        self.call(call, id, |account, now| {
            let state = account
                .file_systems
                .get_mut(id)
                .ok_or_else(|| refused(call, "FileSystemNotFound", "no such file system"))?;
            let system = &mut state.system;
            system.capacity_gib = change.capacity_gib.unwrap_or(system.capacity_gib);
            system.throughput = change.throughput.or(system.throughput);
            system.compression = change.compression.clone().or(system.compression.take());
            system.metadata_iops = change.metadata_iops.or(system.metadata_iops);
            system.maintenance = change.maintenance.clone().or(system.maintenance.take());
            system.version = change.version.clone().or(system.version.take());
            "UPDATING".clone_into(&mut system.lifecycle);
            state.until = now + GOING;
            Ok(())
        })
        .await
    }

    async fn tag_file_system(&self, arn: &str, tags: &Tags) -> Answer<()> {
        self.call(Call::TagResource, arn, |account, _| {
            for state in account.file_systems.values_mut().filter(|state| state.system.arn == arn) {
                state.system.tags.extend(tags.clone());
            }
            Ok(())
        })
        .await
    }

    async fn untag_file_system(&self, arn: &str, keys: &[String]) -> Answer<()> {
        self.call(Call::UntagResource, arn, |account, _| {
            for state in account.file_systems.values_mut().filter(|state| state.system.arn == arn) {
                state.system.tags.retain(|key, _| !keys.contains(key));
            }
            Ok(())
        })
        .await
    }

    async fn delete_file_system(&self, id: &str) -> Answer<()> {
        let call = Call::DeleteFileSystem;
        self.call(call, id, |account, now| {
            let state = account
                .file_systems
                .get_mut(id)
                .ok_or_else(|| refused(call, "FileSystemNotFound", "no such file system"))?;
            "DELETING".clone_into(&mut state.system.lifecycle);
            state.until = now + GOING;
            Ok(())
        })
        .await
    }

    async fn create_association(&self, request: &CreateDataRepositoryAssociation) -> Answer<String> {
        let call = Call::CreateDataRepositoryAssociation;
        let token = request.client_request_token.clone();
        let text = serde_json::to_string(request).unwrap_or_default();
        self.call(call, &request.client_request_token, |account, now| {
            if let Some(same) = account.associations.values().find(|state| state.token == token) {
                if same.request == text {
                    return Ok(same.association.id.clone());
                }
                let message = "The ClientRequestToken was used with other parameters.";
                return Err(refused(call, "IncompatibleParameterError", message));
            }
            if !account.file_systems.contains_key(&request.file_system_id) {
                return Err(refused(call, "FileSystemNotFound", "no such file system"));
            }
            let clash = account.associations.values().any(|state| {
                state.association.file_system == request.file_system_id
                    && state.association.path == request.file_system_path
            });
            if clash {
                return Err(refused(call, "BadRequest", "The file system path is linked already."));
            }
            let id = format!("dra-0{:016x}", account.next_number());
            let events = |policy: &Option<trainc_emit::fsx::Events>| {
                policy.iter().flat_map(|events| &events.events).map(|event| (*event).to_owned()).collect()
            };
            let association = Association {
                arn: format!("arn:aws:fsx:{}:{}:association/{id}", account.region, account.account),
                id: id.clone(),
                file_system: request.file_system_id.clone(),
                lifecycle: "CREATING".to_owned(),
                failure: None,
                path: request.file_system_path.clone(),
                s3: request.data_repository_path.clone(),
                import: events(&request.s3.auto_import_policy),
                export: events(&request.s3.auto_export_policy),
                tags: tags_of(&request.tags),
            };
            let state = AssociationState { association, token, request: text, until: now + LINKING };
            account.associations.insert(id.clone(), state);
            Ok(id)
        })
        .await
    }

    async fn delete_association(&self, id: &str) -> Answer<()> {
        let call = Call::DeleteDataRepositoryAssociation;
        self.call(call, id, |account, now| {
            let state = account
                .associations
                .get_mut(id)
                .ok_or_else(|| refused(call, "DataRepositoryAssociationNotFound", "no such association"))?;
            "DELETING".clone_into(&mut state.association.lifecycle);
            state.until = now + LINKING;
            Ok(())
        })
        .await
    }

    async fn create_bucket(&self, name: &str) -> Answer<()> {
        let call = Call::CreateBucket;
        self.call(call, name, |account, _| {
            if account.missing_buckets.contains(name) {
                return Err(Fault::from_answer(call, Some(409), "BucketAlreadyExists", "The name is taken."));
            }
            if account.buckets.contains_key(name) {
                return Err(Fault::from_answer(call, Some(409), "BucketAlreadyOwnedByYou", ""));
            }
            account.buckets.insert(name.to_owned(), account.region.clone());
            Ok(())
        })
        .await
    }

    async fn put_object(&self, upload: &Upload, overwrite: bool) -> Answer<Option<String>> {
        let call = Call::PutObject;
        let path = format!("{}/{}", upload.bucket, upload.key);
        self.call(call, &path, |account, _| {
            if !account.has_bucket(&upload.bucket) {
                return Err(Fault::from_answer(
                    call,
                    Some(404),
                    "NoSuchBucket",
                    "The specified bucket does not exist",
                ));
            }
            if upload.owner != account.bucket_owner(&upload.bucket) {
                return Err(Fault::from_answer(call, Some(403), "AccessDenied", "Access Denied"));
            }
            if !overwrite && account.objects.contains_key(&path) {
                return Err(Fault::from_answer(call, Some(412), "PreconditionFailed", ""));
            }
            account.objects.insert(path.clone(), upload.bytes.len() as u64);
            account.checksums.insert(path.clone(), upload.sha256.clone());
            Ok(Some(etag(&upload.sha256)))
        })
        .await
    }

    async fn put_random_key(&self, key: &WantedKey) -> Answer<()> {
        let call = Call::PutObject;
        let path = format!("{}/{}", key.bucket, key.key);
        self.call(call, &path, |account, _| {
            if !account.has_bucket(&key.bucket) {
                return Err(Fault::from_answer(call, Some(404), "NoSuchBucket", ""));
            }
            if account.objects.contains_key(&path) {
                return Err(Fault::from_answer(call, Some(412), "PreconditionFailed", ""));
            }
            // Its content is not simulated, since no other call reads it.
            account.objects.insert(path.clone(), 65);
            Ok(())
        })
        .await
    }

    async fn abort_upload(&self, bucket: &str, key: &str, _: &str) -> Answer<()> {
        let path = format!("{bucket}/{key}");
        self.call(Call::AbortMultipartUpload, &path, |account, _| {
            account.unfinished.remove(&path);
            Ok(())
        })
        .await
    }

    async fn delete_object(&self, bucket: &str, key: &str) -> Answer<()> {
        let path = format!("{bucket}/{key}");
        self.call(Call::DeleteObject, &path, |account, _| {
            account.objects.remove(&path);
            account.checksums.remove(&path);
            Ok(())
        })
        .await
    }

    async fn create_training_job(&self, request: &Value) -> Answer<()> {
        let name = text(request, "/TrainingJobName");
        self.call(Call::CreateTrainingJob, &name, |account, now| {
            super::start::start(account, request, &name, now)
        })
        .await
    }

    async fn tag_job(&self, arn: &str, tags: &Tags) -> Answer<()> {
        self.call(Call::AddTags, arn, |account, _| {
            let name = arn.rsplit('/').next().unwrap_or_default();
            if let Some(state) = account.jobs.get_mut(name) {
                state.tags.extend(tags.clone());
            }
            Ok(())
        })
        .await
    }

    async fn stop_training_job(&self, name: &str) -> Answer<()> {
        let call = Call::StopTrainingJob;
        self.call(call, name, |account, now| {
            let state = account.jobs.get_mut(name).ok_or_else(|| no_job(call))?;
            if state.job.status == "InProgress" {
                state.stopped = Some(now);
                super::job::advance_job(state, now);
            }
            Ok(())
        })
        .await
    }
}

fn text(request: &Value, path: &str) -> String {
    request.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn file_system(account: &Account, id: &str, request: &CreateFileSystem, now: f64) -> FileSystem {
    let lustre = &request.lustre_configuration;
    FileSystem {
        id: id.to_owned(),
        arn: format!("arn:aws:fsx:{}:{}:file-system/{id}", account.region, account.account),
        lifecycle: "CREATING".to_owned(),
        failure: None,
        kind: request.file_system_type.clone(),
        capacity_gib: request.storage_capacity,
        storage_type: request.storage_type.clone(),
        version: Some(request.file_system_type_version.clone()),
        subnets: request.subnet_ids.clone(),
        vpc: Some("vpc-0a1b2c3d4e5f60718".to_owned()),
        interfaces: vec![format!("eni-{}", id.trim_start_matches("fs-"))],
        // Values that the service sets if the request omits them.
        kms: request
            .kms_key_id
            .clone()
            .or_else(|| Some(format!("arn:aws:kms:{}:{}:key/aws-fsx", account.region, account.account))),
        mount: None,
        deployment: lustre.deployment_type.clone(),
        throughput: lustre.per_unit_storage_throughput,
        compression: Some(lustre.data_compression_type.clone().unwrap_or_else(|| "NONE".to_owned())),
        drive_cache: lustre.drive_cache_type.clone(),
        efa: Some(lustre.efa_enabled.unwrap_or_default()),
        metadata_iops: lustre.metadata_configuration.as_ref().and_then(|metadata| metadata.iops),
        metadata_mode: lustre.metadata_configuration.as_ref().map(|metadata| metadata.mode.clone()),
        maintenance: Some(
            lustre.weekly_maintenance_start_time.clone().unwrap_or_else(|| "3:07:30".to_owned()),
        ),
        created: Some(now),
        tags: tags_of(&request.tags),
    }
}
