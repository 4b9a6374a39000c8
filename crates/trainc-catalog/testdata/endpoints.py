"""Records the host names that botocore resolves for the services that trainc asks without their crate of the SDK.

    .venv/bin/python crates/trainc-catalog/testdata/endpoints.py

Writes endpoints.csv: two regions of each partition that has two, with and without FIPS and dual-stack endpoints.
"""
import pathlib

import botocore.endpoint_provider
import botocore.loaders

SERVICES = ["ec2", "ecr", "fsx", "iam", "kms", "logs", "sagemaker", "secretsmanager", "service-quotas"]
REGIONS = ["us-east-1", "us-west-2", "cn-north-1", "cn-northwest-1", "eusc-de-east-1", "us-gov-east-1", "us-gov-west-1",
           "us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "eu-isoe-west-1", "us-isof-east-1",
           "us-isof-south-1"]


def main():
    loader = botocore.loaders.Loader()
    partitions = loader.load_data("partitions")
    lines = ["service,region,fips,dual_stack,host"]
    for service in SERVICES:
        rules = loader.load_service_model(service, "endpoint-rule-set-1")
        provider = botocore.endpoint_provider.EndpointProvider(rules, partitions)
        for region in REGIONS:
            for fips in (False, True):
                for dual in (False, True):
                    found = provider.resolve_endpoint(Region=region, UseFIPS=fips, UseDualStack=dual)
                    cells = [service.replace("-", ""), region, str(fips).lower(), str(dual).lower(),
                             found.url.removeprefix("https://")]
                    lines.append(",".join(cells))
    pathlib.Path(__file__).with_name("endpoints.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
