"""Service Quotas: high values, except for those that a test sets."""

from .wire import Refused, ok
from .world import page

PLENTY = 10_000_000.0


class ServiceQuotas:
    def __init__(self, world):
        self.world = world

    def answer(self, call):
        handler = getattr(self, "do_" + call.operation, None)
        if handler is None:
            raise Refused("UnsupportedOperation", f"the test account has no servicequotas:{call.operation}")
        return ok(handler(call.json))

    def quota(self, request, value):
        return {
            "ServiceCode": request["ServiceCode"],
            "QuotaCode": request["QuotaCode"],
            "QuotaName": request["QuotaCode"],
            "Value": float(value),
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }

    def do_GetServiceQuota(self, request):
        """Returns a quota that was changed in the account; others do not exist here, only as defaults."""
        value = self.world.settings.quotas.get(request["QuotaCode"])
        if value is None:
            raise Refused("NoSuchResourceException", "The request failed because the specified quota does not exist.")
        return {"Quota": self.quota(request, value)}

    def do_GetAWSDefaultServiceQuota(self, request):
        return {"Quota": self.quota(request, PLENTY)}

    def do_ListServiceQuotas(self, request):
        quotas = [
            self.quota({**request, "QuotaCode": code}, value) for code, value in self.world.settings.quotas.items()
        ]
        items, token = page(quotas, request, 100)
        return {"Quotas": items, **({"NextToken": token} if token else {})}
