//! Instances and durations of the job: `cluster`.

use super::kdl::{Node, string};
use super::values::format_duration;
use super::{Reader, image, launch};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use trainc_catalog::{images, instances};
use trainc_ir::job::SERVERLESS;

impl Reader<'_> {
    /// Returns the region of the job, otherwise of its ARN, its algorithm, its image or its serverless model,
    /// and a comment on a placeholder.
    pub(super) fn region(
        &mut self,
        keys: &[(String, String)],
        uri: Option<&str>,
        algorithm: Option<&str>,
    ) -> (String, Option<&'static str>) {
        if let Some(region) = &self.origin.region {
            return (region.clone(), self.origin.comment_on_region());
        }
        let written = keys
            .iter()
            .find(|(key, _)| key == "sagemaker_region")
            .and_then(|(_, text)| serde_json::from_str::<String>(text).ok());
        let of_arn = || self.described.as_deref().and_then(|arn| arn.split(':').nth(3)).map(str::to_owned);
        // An algorithm of another region cannot be used.
        let of_algorithm = || {
            algorithm
                .and_then(|arn| arn.split(':').nth(3))
                .filter(|region| !region.is_empty())
                .map(str::to_owned)
        };
        let of_image = || uri.and_then(images::parse_uri).map(|parsed| parsed.region);
        // The hub of a serverless job's model is in the job's region.
        let of_model = || {
            let model = self.unmapped.0.get(SERVERLESS)?.get("BaseModelArn")?.as_str()?;
            model.split(':').nth(3).filter(|region| !region.is_empty()).map(str::to_owned)
        };
        let found = written.or_else(of_arn).or_else(of_algorithm).or_else(of_image).or_else(of_model);
        if let Some(region) = found {
            return (region, None);
        }
        self.unsupported.add("`region`: not in the request; `us-east-1` is a placeholder");
        ("us-east-1".to_owned(), Some("Placeholder: the request does not contain its region."))
    }

    /// Returns `cluster`, and the facts that the launcher needs.
    pub(super) fn cluster(&mut self, uri: Option<&str>) -> (Node, ClusterFacts) {
        let mut resources = self.unmapped.take_object("ResourceConfig").unwrap_or_default();
        let mut stopping = self.unmapped.take_object("StoppingCondition").unwrap_or_default();
        let instance = resources.take_text("InstanceType");
        // Preferred types may share the job's number of instances; with groups it has no node.
        let preferred = resources.0.contains_key("InstancePreferences");
        let count =
            (instance.is_some() || preferred).then(|| resources.take_number("InstanceCount")).flatten();
        let mut node = Node::new("cluster");
        if let Some(instance) = &instance {
            node = node.arg(&string(instance)).prop("nodes", &count.unwrap_or(1).to_string());
        } else if let Some(count) = count {
            node = node.prop("nodes", &count.to_string());
        }
        let mut groups = BTreeMap::new();
        for group in resources.take_list("InstanceGroups") {
            let text = |name: &str| group.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
            let nodes = group.get("InstanceCount").and_then(Value::as_u64).unwrap_or(1);
            groups.insert(text("InstanceGroupName"), text("InstanceType"));
            node = node.child(
                Node::text("group", &text("InstanceGroupName"))
                    .prop("instance", &string(&text("InstanceType")))
                    .prop("nodes", &nodes.to_string()),
            );
        }
        let kms = resources.take_text("VolumeKmsKeyId");
        let size = resources.take_number("VolumeSizeInGB").unwrap_or(30);
        if size != 30 || kms.is_some() {
            node =
                node.child(Node::text("volume", &format!("{size}GiB")).prop_if_some("kms", kms.as_deref()));
        }
        let duration = |name: &str, seconds: u64| Node::text(name, &format_duration(seconds));
        node = node.child(duration("max-run", stopping.take_number("MaxRuntimeInSeconds").unwrap_or(86_400)));
        node = node.value(&mut stopping, "StoppingCondition", "MaxPendingTimeInSeconds");
        // Spot requires both members; one without the other stays unmapped and is listed.
        if self.unmapped.take_bool("EnableManagedSpotTraining") == Some(true) {
            let spot = Node::new("spot").value(&mut stopping, "StoppingCondition", "MaxWaitTimeInSeconds");
            if spot.is_bare() {
                self.unmapped.0.insert("EnableManagedSpotTraining".to_owned(), Value::Bool(true));
            } else {
                node = node.child(spot);
            }
        }
        node = node.value(&mut resources, "ResourceConfig", "KeepAlivePeriodInSeconds");
        node = node.value(&mut self.unmapped, "", "RetryStrategy.MaximumRetryAttempts");
        node = node.value(&mut resources, "ResourceConfig", "TrainingPlanArn");
        if let Some(mut placement) = resources.take_object("InstancePlacementConfig") {
            let object = "ResourceConfig.InstancePlacementConfig";
            let mut child = Node::new("placement").value(&mut placement, object, "EnableMultipleJobs");
            for item in placement.take_list("PlacementSpecifications") {
                let id = item.get("UltraServerId").and_then(Value::as_str).unwrap_or_default();
                let instances = item.get("InstanceCount").and_then(Value::as_u64).unwrap_or_default();
                child = child.child(Node::text("ultra-server", id).prop("instances", &instances.to_string()));
            }
            node = node.child(child);
        }
        self.unmapped.put_back("ResourceConfig", resources);
        self.unmapped.put_back("StoppingCondition", stopping);
        let row = instance.as_deref().and_then(instances::get);
        let per_node = row.map(|row| u64::from(row.accelerators));
        let launch = launch::LaunchContext {
            world: per_node.zip(count).and_then(|(gpus, nodes)| gpus.checked_mul(nodes)),
            per_node,
            huggingface: uri.is_some_and(|uri| image::family(uri) == "huggingface"),
            groups,
        };
        (node, ClusterFacts { instance, launch })
    }
}

/// Returns the number of accelerators of a host, if the catalogue has the instance type of a request.
pub(super) fn accelerators(request: &Map<String, Value>) -> Option<u64> {
    let instance = request.get("ResourceConfig")?.get("InstanceType")?.as_str()?;
    instances::get(instance).map(|row| u64::from(row.accelerators)).filter(|count| *count > 0)
}

/// Facts of the cluster that other nodes depend on.
pub(super) struct ClusterFacts {
    /// The instance type, unless there are groups.
    pub(super) instance: Option<String>,
    /// Facts for the launcher.
    pub(super) launch: launch::LaunchContext,
}
