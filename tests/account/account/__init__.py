"""An AWS account on one port, for tests: moto's server with what moto does wrong put right.

moto keeps IAM, S3, EC2 and STS well. It is no judge of SageMaker and FSx: there nothing takes time, tokens are not
idempotent, a second job of one name replaces the first, and half the operations are missing. Those two services,
Service Quotas and the job's CloudWatch logs are played here; every JSON request is first held against botocore's
model of the service. Faults (lost answers, throttling, kills, lag) are asked for over `/_account/…`, and every request
is recorded.
"""
