//! The rules. Each is a file with its codes, a function `rule` and tests.
//!
//! No rule uses another: shared facts are [queries](crate::queries), and a code declares which others it
//! `supersedes`.

use super::{Context, Rule};
use trainc_diag::{Code, Problems};
use trainc_ir::Plan;
use trainc_ir::hardware::Instance;

#[cfg(test)]
mod unsupported_tests;

/// Rules that are only about some plans.
pub struct Group {
    /// Returns whether the rules are about a plan.
    concerns: fn(&Plan) -> bool,
    rules: &'static [Rule],
}

/// Runs the rules of the groups that concern the plan. Their order does not matter.
pub fn run(groups: &[Group], context: &Context, problems: &mut Problems) {
    for group in groups.iter().filter(|group| (group.concerns)(context.plan)) {
        group.rules.iter().for_each(|rule| rule(context, problems));
    }
}

/// Returns whether image, precision and engine support the accelerators of an instance type, as far as that
/// is known without a plan for it.
pub fn supports_instance(plan: &Plan, instance: &Instance) -> bool {
    precision::supports_instance(plan, instance)
        && cuda::supports_instance(plan, instance)
        && !smddp::refuses_instance(plan, instance)
        && !smp_image::refuses_instance(plan, instance)
}

/// Returns whether the cluster is on SageMaker, so that a request is sent.
fn is_on_sagemaker(plan: &Plan) -> bool {
    plan.on_sagemaker.is_some()
}

/// Declares the rules, one file each: those about every plan, those about what SageMaker is asked for, files
/// with a rule of either kind, and those about another cluster. The last ones also try edits of the plan
/// against the others.
macro_rules! rules {
    (
        always { $($always:ident,)* }
        sagemaker { $($sagemaker:ident,)* }
        both { $($both:ident,)* }
        elsewhere { $($elsewhere:ident,)* }
        trying { $($trying:ident,)* }
    ) => {
        $(mod $always;)*
        $(mod $sagemaker;)*
        $(mod $both;)*
        $(mod $elsewhere;)*
        $(mod $trying;)*

        /// The rules that an edited plan has to pass.
        pub static WHAT_IF_RULES: &[Group] = &[
            Group { concerns: |_| true, rules: &[$($always::rule,)* $($both::rule,)*] },
            Group { concerns: is_on_sagemaker, rules: &[$($sagemaker::rule,)* $($both::sagemaker_rule,)*] },
            Group { concerns: |plan| !is_on_sagemaker(plan), rules: &[$($elsewhere::rule,)*] },
        ];

        /// The rules that also try edits.
        pub static TRYING_RULES: &[Group] = &[Group { concerns: |_| true, rules: &[$($trying::rule,)*] }];

        /// The codes of the rules by their ID.
        #[expect(unused_imports, unreachable_pub, reason = "rules that only report shared codes have none")]
        pub mod codes {
            $(pub use super::$always::*;)*
            $(pub use super::$sagemaker::*;)*
            $(pub use super::$both::*;)*
            $(pub use super::$elsewhere::*;)*
            $(pub use super::$trying::*;)*
        }

        /// The codes of each rule.
        static CODES: &[&[&Code]] = &[
            $($always::CODES,)*
            $($sagemaker::CODES,)*
            $($both::CODES,)*
            $($elsewhere::CODES,)*
            $($trying::CODES,)*
        ];
    };
}

rules! {
    always {
        adapter,
        allocator,
        arguments,
        assumed,
        batch_size,
        budget,
        checkpoint_interval,
        credentials,
        cuda,
        cuda_only,
        degrees,
        delivery,
        divisibility,
        engine_files,
        experts,
        fsdp_wrap,
        git_names,
        groups,
        hyperparameter_conflict,
        optimizer,
        option_hardware,
        pipeline,
        precision,
        probe,
        processes,
        program_source,
        quantize,
        requirements,
        s3_for_directory,
        saved_model,
        run_length,
        schedule,
        sequence_parts,
        serverless,
        shard_group,
        smddp,
        smp_image,
        smp_parameters,
        smp_unused,
        source,
        torchrun,
        unmodelled,
    }
    sagemaker {
        account,
        algorithm_input,
        archive_names,
        arns,
        channel_overlap,
        channel_path,
        channels,
        checkpoint_location,
        checkpoint_room,
        checkpoints,
        container_network,
        container_paths,
        credential_files,
        data_room,
        debugger,
        disabled_hardware,
        duplicates,
        durations,
        efa,
        environment,
        hub_download,
        instance_groups,
        instances,
        isolation,
        job_name,
        kms_alias,
        lfs,
        limits,
        local_paths,
        lustre_lifecycle,
        lustre_links,
        lustre_rate,
        lustre_settings,
        metrics,
        missing_key,
        monitoring_rules,
        mpi_quoting,
        neuron,
        other_region,
        output_file,
        own_image,
        placeholder_names,
        placement,
        predicted_cost,
        predicted_time,
        preferences,
        resume,
        role,
        s3_uris,
        settings_files,
        shared_checkpoints,
        spot,
        storage_kind,
        storage_name,
        storage_network,
        storage_use,
        tags,
        volume,
        vpc,
        worker_image,
    }
    both {
        hyperparameters,
        image_kind,
        images,
        unused,
    }
    elsewhere {
        other_cluster,
    }
    trying {
        memory,
    }
}

/// Returns the codes of all rules.
pub(super) fn codes() -> Vec<&'static Code> {
    CODES.concat()
}

/// Returns whether both codes are of one rule.
pub(super) fn is_same_rule(a: &Code, b: &Code) -> bool {
    CODES.iter().any(|codes| codes.contains(&a) && codes.contains(&b))
}

/// Returns whether a code is of a rule.
pub(super) fn is_of_rule(code: &Code) -> bool {
    CODES.iter().any(|codes| codes.contains(&code))
}

/// Returns the codes about files of other programs as such: their problems name the key already.
pub(crate) fn codes_of_files() -> Vec<&'static Code> {
    [engine_files::CODES, trainc_plan::codes::OF_FILES].concat()
}
