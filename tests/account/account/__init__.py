"""An AWS account on one port, for tests: moto's server with corrections.

moto simulates IAM, S3, EC2 and STS well, but not SageMaker and FSx: nothing takes time, tokens are not idempotent, a
second job with the same name replaces the first, and half of the operations are missing. This package simulates these
two services, Service Quotas and the job's CloudWatch logs. SageMaker and FSx requests are validated against botocore's
model of the service. Tests request faults (lost answers, throttling, kills, lag) at `/_account/…`. Every request is
recorded.
"""
