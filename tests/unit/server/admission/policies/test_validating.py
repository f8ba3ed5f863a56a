"""ValidatingAdmissionPolicy: matching, expressions, parameters, actions, failures, budgets, notes."""

from __future__ import annotations

import msgspec
import pytest

from dray.api.scheme.kinds import Object
from dray.server.admission import RequestScope
from dray.server.auth.authorizer import NO_OPINION, AlwaysAllow, Attributes, Verdict
from tests.support.admission import (
    POLICIES,
    World,
    binding,
    config_map,
    listen,
    make_world,
    refusal,
    validating_policy,
)

MAPS = "/api/v1/namespaces/default/configmaps"
PLUGIN = "ValidatingAdmissionPolicy"


async def world_with(policy: Object, bound: Object | None = None, **options: AlwaysAllow) -> World:
    world = await make_world(PLUGIN, **options)
    await world.post(f"{POLICIES}/validatingadmissionpolicies", policy)
    bound = bound or binding(policy["metadata"]["name"], "Deny")
    await world.post(f"{POLICIES}/validatingadmissionpolicybindings", bound)
    return world


async def test_what_a_policy_demands_is_demanded() -> None:
    world = await world_with(validating_policy("p", "!('bad' in object.data)"))
    assert await world.post(MAPS, config_map(good="1"))
    error = await refusal(world.post(MAPS, config_map("x", bad="1")))
    by = "ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request"
    assert error.message == f"configmaps \"x\" is forbidden: {by}: failed expression: !('bad' in object.data)"
    assert (error.http_code, error.status_reason) == (422, "Invalid")


async def test_a_policy_without_a_binding_does_nothing_and_changes_take_effect_at_once() -> None:
    world = await make_world(PLUGIN)
    path = f"{POLICIES}/validatingadmissionpolicies"
    await world.post(path, validating_policy("p", "false"))
    assert await world.post(MAPS, config_map("a"))
    await world.post(f"{POLICIES}/validatingadmissionpolicybindings", binding("p", "Deny"))
    assert (await refusal(world.post(MAPS, config_map("b")))).http_code == 422
    await world.patch(f"{path}/p", {"spec": {"validations": [{"expression": "true"}]}})
    assert await world.post(MAPS, config_map("b"))


@pytest.mark.parametrize(
    ("validation", "words"),
    [
        ({"expression": "false"}, "failed expression: false"),
        ({"expression": "false", "message": "  said  "}, "said"),
        ({"expression": "false", "message": "said", "messageExpression": "'made: ' + object.metadata.name"}, "made: x"),
        ({"expression": "false", "message": "said", "messageExpression": "'two\\nlines'"}, "said"),
        ({"expression": "false", "message": "said", "messageExpression": "string(object.data['none'])"}, "said"),
        ({"expression": "false", "message": "said", "messageExpression": "'  '"}, "said"),
    ],
)  # fmt: skip
async def test_the_message_is_made_written_or_the_expression_itself(validation: Object, words: str) -> None:
    world = await world_with(validating_policy("p", validation))
    error = await refusal(world.post(MAPS, config_map("x", a="b")))
    assert error.message.endswith(f"denied request: {words}")


@pytest.mark.parametrize(
    ("reason", "code"), [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)]
)
async def test_the_reason_decides_the_code(reason: str, code: int) -> None:
    world = await world_with(validating_policy("p", {"expression": "false", "reason": reason}))
    error = await refusal(world.post(MAPS, config_map()))
    assert (error.status_reason, error.http_code) == (reason, code)


async def test_warnings_warn_and_notes_are_left_for_the_audit_log() -> None:
    policy = validating_policy("p", {"expression": "false", "message": "no"})
    policy["spec"]["auditAnnotations"] = [{"key": "name", "valueExpression": "string(object.metadata.name)"}]
    world = await world_with(policy, binding("p", "Warn", "Audit"))
    events = listen(world)
    assert await world.warnings(MAPS, config_map()) == (
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p-binding': no"
    )
    notes = events[-1]["annotations"]
    assert notes["p/name"] == "m"
    [failure] = msgspec.json.decode(notes["validation.policy.admission.k8s.io/validation_failure"])
    assert failure == {
        "message": "no",
        "policy": "p",
        "binding": "p-binding",
        "expressionIndex": 0,
        "validationActions": ["Warn", "Audit"],
    }


async def test_an_expression_that_fails_denies_unless_failures_are_ignored() -> None:
    policy = validating_policy("p", "object.data['none'] == 'x'")
    world = await world_with(policy)
    error = await refusal(world.post(MAPS, config_map(a="b")))
    assert error.message.endswith(
        "expression 'object.data['none'] == 'x'' resulted in error: no such key: none"
    )
    await world.patch(f"{POLICIES}/validatingadmissionpolicies/p", {"spec": {"failurePolicy": "Ignore"}})
    assert await world.post(MAPS, config_map(a="b"))


async def test_conditions_decide_whether_a_policy_cares() -> None:
    conditions = [
        {"name": "not-root", "expression": "request.userInfo.username != 'root'"},
        {"name": "fails", "expression": "object.data['none'] == 'x'"},
    ]
    world = await world_with(validating_policy("p", "false", matchConditions=conditions))
    # One that is false settles it, whatever happens to the others.
    assert await world.post(MAPS, config_map("a", x="y"))
    error = await refusal(world.post(MAPS, config_map("b", x="y"), client=world.user("ann", "g")))
    assert "no such key: none" in error.message


async def test_variables_are_evaluated_when_needed_and_build_on_one_another() -> None:
    variables = [
        {"name": "size", "expression": "size(object.data)"},
        {"name": "large", "expression": "variables.size > 1"},
        {"name": "broken", "expression": "object.data['none']"},
    ]
    world = await world_with(validating_policy("p", "!variables.large", variables=variables))
    assert await world.post(MAPS, config_map("a", x="1"))
    assert (await refusal(world.post(MAPS, config_map("b", x="1", y="2")))).http_code == 422


async def test_namespaces_and_objects_are_selected_by_labels() -> None:
    policy = validating_policy("p", "false")
    policy["spec"]["matchConstraints"] |= {
        "namespaceSelector": {"matchLabels": {"strict": "yes"}},
        "objectSelector": {"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]},
    }
    world = await world_with(policy)
    assert await world.post(MAPS, config_map("a"))
    await world.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"strict": "yes"}}})
    assert (await refusal(world.post(MAPS, config_map("b")))).http_code == 422
    free = config_map("c")
    free["metadata"]["labels"] = {"free": "x"}
    assert await world.post(MAPS, free)


async def test_a_rule_for_one_version_is_about_all_of_them_unless_it_is_exact() -> None:
    policy = validating_policy("p", "object.apiVersion != 'resource.k8s.io/v1beta1'")
    rule = policy["spec"]["matchConstraints"]["resourceRules"][0]
    rule |= {"apiGroups": ["resource.k8s.io"], "apiVersions": ["v1beta1"], "resources": ["resourceclaims"]}
    world = await world_with(policy)
    claim = {
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "g"}}]}},
    }
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    # The request is made in v1, the policy sees v1beta1.
    assert (await refusal(world.post(claims, claim))).http_code == 422
    await world.patch(
        f"{POLICIES}/validatingadmissionpolicies/p", {"spec": {"matchConstraints": {"matchPolicy": "Exact"}}}
    )
    assert await world.post(claims, claim)


async def test_excluded_rules_names_and_subresources_are_left_out() -> None:
    policy = validating_policy("p", "false")
    match = policy["spec"]["matchConstraints"]
    match["excludeResourceRules"] = [{**match["resourceRules"][0], "resourceNames": ["free"]}]
    world = await world_with(policy)
    assert await world.post(MAPS, config_map("free"))
    assert (await refusal(world.post(MAPS, config_map("bound")))).http_code == 422


async def test_old_and_new_objects_are_seen() -> None:
    world = await world_with(validating_policy("p", "oldObject == null || object.data.a == oldObject.data.a"))
    await world.post(MAPS, config_map(a="1"))
    assert await world.patch(f"{MAPS}/m", {"data": {"b": "2"}})
    assert (await refusal(world.patch(f"{MAPS}/m", {"data": {"a": "2"}}))).http_code == 422


# -- parameters


def parametrized(**ref: object) -> tuple[Object, Object]:
    policy = validating_policy(
        "p",
        "params == null || size(object.data) <= int(params.data.most)",
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        matchConditions=[{"name": "not-params", "expression": "!object.metadata.name.startsWith('params')"}],
    )
    return policy, binding("p", "Deny", paramRef={"parameterNotFoundAction": "Deny", **ref})


async def test_a_parameter_is_found_by_name_in_the_namespace_of_the_request() -> None:
    world = await world_with(*parametrized(name="params"))
    # Where there are no parameters the binding itself is broken.
    error = await refusal(world.post(MAPS, config_map("a")))
    assert "failed to configure binding: no params found for policy binding with `Deny`" in error.message


async def test_every_selected_parameter_must_be_content() -> None:
    policy, bound = parametrized(selector={"matchLabels": {"limit": "yes"}}, namespace="kube-public")
    bound["spec"]["paramRef"]["parameterNotFoundAction"] = "Allow"
    world = await world_with(policy, bound)
    assert await world.post(MAPS, config_map("a", x="1"))
    for name, most in (("params-1", "1"), ("params-2", "2")):
        param = config_map(name, most=most)
        param["metadata"]["labels"] = {"limit": "yes"}
        await world.post("/api/v1/namespaces/kube-public/configmaps", param)
    assert await world.post(MAPS, config_map("b", x="1"))
    assert (await refusal(world.post(MAPS, config_map("c", x="1", y="2")))).http_code == 422


async def test_a_policy_whose_parameters_are_of_no_served_kind_denies() -> None:
    policy, bound = parametrized(name="x")
    policy["spec"]["paramKind"] = {"apiVersion": "example.com/v1", "kind": "Nothing"}
    world = await world_with(policy, bound)
    error = await refusal(world.post(MAPS, config_map()))
    assert error.message.endswith(
        "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource "
        "referenced by paramKind: 'example.com/v1, Kind=Nothing'"
    )


# -- the authorizer, the budget, what is exempt


class _NoSecrets(AlwaysAllow):
    def authorize(self, attributes: Attributes) -> Verdict:
        return NO_OPINION if attributes.resource == "secrets" else super().authorize(attributes)


async def test_policies_ask_the_authorizer() -> None:
    ask = "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"
    world = await world_with(validating_policy("p", ask), authorizer=_NoSecrets())
    assert (await refusal(world.post(MAPS, config_map()))).http_code == 422
    own = "authorizer.requestResource.check('create').allowed()"
    world = await world_with(validating_policy("p", own), authorizer=_NoSecrets())
    assert await world.post(MAPS, config_map())


async def test_a_policy_that_costs_too_much_denies() -> None:
    heavy = "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, true))))"
    world = await world_with(validating_policy("p", heavy))
    data = {f"k{i}": "v" for i in range(60)}
    error = await refusal(world.post(MAPS, config_map("m", **data)))
    assert "cost" in error.message


async def test_policies_are_not_asked_about_policies() -> None:
    policy = validating_policy("p", "false")
    rule = policy["spec"]["matchConstraints"]["resourceRules"][0]
    rule |= {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    world = await world_with(policy)
    await world.delete(f"{POLICIES}/validatingadmissionpolicybindings/p-binding")
    assert await world.post(MAPS, config_map())


async def test_requests_that_no_policy_is_about_are_not_handled_at_all() -> None:
    world = await world_with(validating_policy("p", "false"))
    [plugin] = world.api.admission.plugins
    assert plugin.handles(RequestScope("CREATE", "", "v1", "configmaps", "", "ConfigMap"))
    assert not plugin.handles(RequestScope("CREATE", "", "v1", "secrets", "", "Secret"))


async def test_deletions_are_seen_with_the_old_object_only() -> None:
    policy = validating_policy("p", "object == null && oldObject.data.a == '1'")
    policy["spec"]["matchConstraints"]["resourceRules"][0]["operations"] = ["DELETE"]
    world = await world_with(policy)
    await world.post(MAPS, config_map("keep", a="2"))
    await world.post(MAPS, config_map("go", a="1"))
    assert await world.delete(f"{MAPS}/go")
    assert (await refusal(world.delete(f"{MAPS}/keep"))).http_code == 422


async def test_what_is_sent_by_which_options_is_seen() -> None:
    world = await world_with(validating_policy("p", "!has(request.options.fieldValidation)"))
    assert await world.post(MAPS, config_map("a"))
    error = await refusal(world.post(MAPS, config_map("b"), fieldValidation="Strict"))
    assert error.http_code == 422
    world = await world_with(validating_policy("p", "request.dryRun"))
    assert await world.post(MAPS, config_map("c"), dryRun="All")


async def test_generated_names_are_not_names_yet() -> None:
    world = await world_with(validating_policy("p", "!has(request.name) && object.metadata.name != ''"))
    assert await world.post(MAPS, {"metadata": {"generateName": "g-"}})
