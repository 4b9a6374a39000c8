"""Keys, secrets and images that a manifest refers to. Keys and secrets exist if the test has seeded them."""

from .wire import Refused, ok


class Keys:
    def __init__(self, world):
        self.world = world

    def answer(self, call):
        if call.operation != "DescribeKey":
            return None
        arn = call.json["KeyId"]
        if arn not in self.world.named:
            raise Refused("NotFoundException", f"Key '{arn}' does not exist")
        return ok({"KeyMetadata": {"Arn": arn, "KeyId": arn.rpartition("/")[2], "KeyState": "Enabled"}})


class Secrets:
    def __init__(self, world):
        self.world = world

    def answer(self, call):
        if call.operation != "DescribeSecret":
            return None
        arn = call.json["SecretId"]
        if arn not in self.world.named:
            raise Refused("ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
        return ok({"ARN": arn, "Name": arn.rpartition(":")[2]})


class Images:
    def __init__(self, world):
        self.world = world

    def answer(self, call):
        if call.operation != "DescribeImages":
            return None
        if self.world.settings.missing_images:
            raise Refused("ImageNotFoundException", "The image requested does not exist within the repository.")
        asked = call.json
        return ok({"imageDetails": [{"repositoryName": asked["repositoryName"], **asked["imageIds"][0]}]})
