//! The rules. Each is a file with its codes, a function `rule` and tests.
//!
//! No rule uses another: shared facts are [queries](crate::queries), and a code declares which others it `supersedes`.

use super::Rule;
use trainc_diag::Code;

#[cfg(test)]
mod unsupported_tests;

/// Declares the rules, one file each: those that judge a plan, then those that also try edits of it against the former.
macro_rules! rules {
    ({ $($name:ident,)* } then { $($trying:ident,)* }) => {
        $(mod $name;)*
        $(mod $trying;)*

        /// The rules. Their order does not matter.
        pub static RULES: &[Rule] = &[$($name::rule,)* $($trying::rule,)*];

        /// The rules that an edited plan has to pass.
        pub(super) static WHAT_IF_RULES: &[Rule] = &[$($name::rule,)*];

        /// The codes of the rules by their ID.
        #[expect(unused_imports, unreachable_pub, reason = "rules that only report shared codes have none")]
        pub mod codes {
            $(pub use super::$name::*;)*
            $(pub use super::$trying::*;)*
        }

        /// The codes of each rule.
        static CODES: &[&[&Code]] = &[$($name::CODES,)* $($trying::CODES,)*];
    };
}

rules! {
    {
        account,
        adapter,
        algorithm_input,
        archive_names,
        arguments,
        arns,
        assumed,
        batch_size,
        budget,
        channel_overlap,
        channel_path,
        channels,
        checkpoint_interval,
        checkpoint_location,
        checkpoint_room,
        checkpoints,
        container_network,
        container_paths,
        credential_files,
        credentials,
        cuda,
        cuda_only,
        debugger,
        degrees,
        disabled_hardware,
        divisibility,
        duplicates,
        durations,
        efa,
        environment,
        experts,
        fsdp_wrap,
        git_names,
        groups,
        hyperparameter_conflict,
        hyperparameters,
        image_kind,
        images,
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
        optimizer,
        option_hardware,
        other_region,
        pipeline,
        placeholder_names,
        placement,
        precision,
        predicted_cost,
        predicted_time,
        preferences,
        probe,
        processes,
        program_source,
        quantize,
        role,
        s3_uris,
        schedule,
        serverless,
        shard_group,
        shared_checkpoints,
        smddp,
        smp_image,
        smp_parameters,
        smp_unused,
        source,
        spot,
        storage_kind,
        storage_name,
        storage_network,
        storage_use,
        tags,
        torchrun,
        unused,
        volume,
        vpc,
        worker_image,
    } then {
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
