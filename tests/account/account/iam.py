"""IAM as moto keeps it, with its limits checked, its writes seen late, and policies simulated.

What is written shows to `CreateTrainingJob` only after `iam_lag` tries, and to reads only after `read_lag` of them: a
read in between gets the answer that stood before the write.
"""

import json
import re
import urllib.parse

from moto.iam.models import iam_backends

from .wire import Answer, Refused

WRITES = {
    "CreateRole", "PutRolePolicy", "DeleteRolePolicy", "UpdateAssumeRolePolicy", "TagRole", "UntagRole", "DeleteRole",
    "UpdateRole", "UpdateRoleDescription",
}
READS = ("GetRole", "ListRolePolicies", "ListRoleTags", "ListAttachedRolePolicies", "GetRolePolicy")
NAME = re.compile(r"[\w+=,.@-]{1,64}", re.ASCII)


class Iam:
    def __init__(self, world, ask):
        """`ask(call, form)` puts another form to moto, with the headers of `call`."""
        self.world, self.ask = world, ask

    def answer(self, call):
        form = call.form
        if call.operation in ("SimulatePrincipalPolicy", "SimulateCustomPolicy"):
            return self.simulate(form)
        role = form.get("RoleName")
        if call.operation in READS:
            stale = self.world.stale.get((call.operation, role, form.get("PolicyName")))
            if stale is not None and stale[0] > 0:
                stale[0] -= 1
                return stale[1]
        if call.operation in WRITES:
            self.check(call.operation, form)
            self.keep(call, form)
            answer = self.ask(call, form)
            if answer.status == 200 and call.operation in ("CreateRole", "PutRolePolicy", "UpdateAssumeRolePolicy"):
                self.world.role_lag[role] = self.world.settings.iam_lag
            return answer
        return None

    def check(self, operation, form):
        role = form.get("RoleName", "")
        if NAME.fullmatch(role) is None:
            raise Refused("ValidationError", f"1 validation error detected: roleName {role!r}")
        if operation == "CreateRole":
            taken = [r.name for r in iam_backends[self.world.account]["aws"].roles.values()]
            if role.lower() in (name.lower() for name in taken):
                raise Refused("EntityAlreadyExists", f"Role with name {role} already exists.", 409)
            for name in ("Path",):
                if name in form and not re.fullmatch(r"/|/[\x21-\x7e]+/", form[name]):
                    raise Refused("ValidationError", f"1 validation error detected: path {form[name]!r}")
            if len(form.get("Description", "")) > 1000:
                raise Refused("ValidationError", "1 validation error detected: description is longer than 1000")
        document = form.get("AssumeRolePolicyDocument") or (
            form.get("PolicyDocument") if operation != "PutRolePolicy" else None
        )
        if document is not None:
            self.document(document, 2048)
        if operation == "PutRolePolicy":
            self.document(form["PolicyDocument"], 10240)

    @staticmethod
    def document(text, most):
        try:
            policy = json.loads(text)
        except ValueError:
            policy = None
        if not isinstance(policy, dict) or not policy.get("Statement"):
            raise Refused("MalformedPolicyDocument", "This policy contains invalid Json")
        if len(re.sub(r"\s", "", text)) > most:
            raise Refused("LimitExceeded", f"Maximum policy size of {most} bytes exceeded", 409)

    def keep(self, call, form):
        """Remembers what reads of this role answer now, for as many reads as the lag says."""
        lag = self.world.settings.read_lag
        if lag == 0:
            return
        role = form["RoleName"]
        for read in READS:
            policy = form.get("PolicyName", "trainc") if read == "GetRolePolicy" else None
            key = (read, role, policy)
            stale = self.world.stale.get(key)
            if stale is not None and stale[0] > 0:
                continue
            asked = {"Action": read, "RoleName": role, "Version": "2010-05-08"}
            if policy is not None:
                asked["PolicyName"] = policy
            self.world.stale[key] = [lag, self.ask(call, asked)]

    def simulate(self, form):
        from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document

        role = form.get("PolicySourceArn", "").rpartition("/")[2]
        backend = iam_backends[self.world.account]["aws"]
        found = next((r for r in backend.roles.values() if r.name == role), None)
        if "PolicySourceArn" in form and found is None:
            raise Refused("NoSuchEntity", f"The role with name {role} cannot be found.", 404)
        texts = [v for k, v in form.items() if k.startswith("PolicyInputList.member.")]
        if found is not None:
            texts += [urllib.parse.unquote(p) if p.startswith("%") else p for p in found.policies.values()]
            texts += [p.document for p in found.managed_policies.values()]
        statements = [parse_policy_document(text) for text in texts]
        actions = [v for k, v in sorted(form.items()) if k.startswith("ActionNames.member.")]
        resources = [v for k, v in sorted(form.items()) if k.startswith("ResourceArns.member.")] or ["*"]
        context = {}
        for key, name in form.items():
            if key.endswith(".ContextKeyName"):
                context[name.lower()] = form.get(key.removesuffix("Name") + "Values.member.1", "")
        rows = ""
        for action in actions:
            for resource in resources:
                ask = EvalContext(
                    form.get("PolicySourceArn", ""), "AssumedRole", self.world.account, action, resource, "us-east-1",
                    source_ip="10.0.0.1", secure_transport=True, service_context=context,
                )
                decision = {"Allow": "allowed", "Deny": "explicitDeny"}.get(
                    evaluate(ask, statements).decision, "implicitDeny"
                )
                rows += (
                    f"<member><EvalActionName>{action}</EvalActionName><EvalResourceName>{resource}</EvalResourceName>"
                    f"<EvalDecision>{decision}</EvalDecision><MatchedStatements/><MissingContextValues/></member>"
                )
        name = "SimulatePrincipalPolicy" if "PolicySourceArn" in form else "SimulateCustomPolicy"
        body = (
            f'<{name}Response xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><{name}Result><IsTruncated>false'
            f"</IsTruncated><EvaluationResults>{rows}</EvaluationResults></{name}Result></{name}Response>"
        )
        return Answer(200, {"Content-Type": "text/xml"}, body.encode())
