"""The dashboard in a real browser, over a whole cluster."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support import showcase
from tests.support.paths import DRAY
from tests.support.process import DrayProcess, dray_process, free_port
from tests.support.wait import wait_for_sync

pytestmark = pytest.mark.xdist_group("ui")

ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "Pod": "/api/v1/namespaces/{}/pods",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates",
    "DeviceTaintRule": "/apis/resource.k8s.io/v1beta2/devicetaintrules",
}


def create(cluster: DrayProcess, *documents: dict[str, Any]) -> None:
    for one in documents:
        cluster.request("POST", PATHS[one["kind"]].format(one["metadata"].get("namespace")), one)


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[DrayProcess]:
    data = tmp_path_factory.mktemp("ui")
    with dray_process(data, "up", "--runtime", "simulated", "--ui", f"127.0.0.1:{port}") as running:
        create(running, *showcase.showcase())
        yield running


@pytest.fixture(scope="module")
def browser(tool: Callable[[str], str]) -> Iterator[Browser]:
    chromium = tool("chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser, cluster: DrayProcess, port: int) -> Iterator[Page]:
    """The dashboard, opened by the address that ``dray up`` prints. Nothing may go wrong or come from elsewhere."""
    address = re.search(r"See it live: (\S+)", cluster.log)
    assert address is not None
    context = browser.new_context(viewport={"width": 1300, "height": 850})
    found = context.new_page()
    wrong: list[str] = []
    found.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    found.on("pageerror", lambda error: wrong.append(str(error)))
    found.on("response", lambda one: wrong.append(f"{one.status} {one.url}") if one.status >= 400 else None)
    foreign: list[str] = []
    found.on("request", lambda one: foreign.append(one.url) if f"127.0.0.1:{port}/" not in one.url else None)
    found.goto(address[1])
    expect(found.get_by_role("status").filter(has_text="Live")).to_be_visible()
    yield found
    context.close()
    expected = "net::ERR"  # what the browser says while the server is gone
    assert [text for text in wrong if expected not in text] == []
    assert foreign == []


def visit(page: Page, hash: str) -> None:
    page.goto(re.sub(r"#.*", "", page.url) + f"#/{hash}")


def test_from_a_pending_pod_to_its_cause_in_two_clicks(page: Page):
    assert "token" not in page.url
    page.get_by_role("region", name="Waiting").get_by_role("link", name="serving/ranker").click()
    why = page.get_by_role("region", name="Why", exact=True)
    expect(why).to_contain_text("Why it is pending")
    expect(why).to_contain_text('did you mean "LATEST-GPU-MODEL"')
    expect(why.get_by_role("heading", name="What would help")).to_be_visible()
    why.get_by_role("link", name="gpu.example.com", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("gpu.example.com")


def test_a_claim_is_followed_while_one_looks(page: Page, cluster: DrayProcess):
    request = {"name": "one", "exactly": {"deviceClassName": "gpu.example.com"}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "followed", "namespace": "training"},
        "spec": {"devices": {"requests": [request]}},
    }
    create(cluster, claim)
    visit(page, "claim?id=training/followed")
    state = page.locator(".headstate")
    expect(state).to_have_text("pending")
    pod = showcase.pod("follower", "training", "")
    pod["spec"]["resourceClaims"] = [{"name": "devices", "resourceClaimName": "followed"}]
    create(cluster, pod)
    expect(state).to_have_text("allocated,reserved")
    given = page.get_by_role("region", name="What it has")
    expect(given.locator("a").first).to_contain_text("gpu.example.com/node-")
    cluster.request("DELETE", "/api/v1/namespaces/training/pods/follower")
    cluster.request("DELETE", "/apis/resource.k8s.io/v1/namespaces/training/resourceclaims/followed")
    expect(state).to_have_text("gone")
    timeline = page.locator(".timeline")
    for seen in ("pending", "allocated,reserved", "gone"):
        expect(timeline.get_by_text(seen, exact=True).first).to_be_visible()


def test_what_objects_say_is_text_and_never_markup(page: Page, cluster: DrayProcess):
    markup = "<img src=taken onerror=document.title='taken'>"
    request = {
        "name": "one",
        "exactly": {
            "deviceClassName": "gpu.example.com",
            "selectors": [{"cel": {"expression": f'device.driver == "{markup}"'}}],
        },
    }
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "hostile", "namespace": "training", "annotations": {"note": markup}},
        "spec": {"devices": {"requests": [request]}},
    }
    pod = showcase.pod("hostile", "training", "")
    pod["spec"]["resourceClaims"] = [{"name": "devices", "resourceClaimName": "hostile"}]
    create(cluster, claim, pod)
    visit(page, "claim?id=training/hostile")
    expect(page.get_by_text(markup).first).to_be_visible()
    visit(page, "pod?id=training/hostile")
    expect(page.get_by_role("region", name="Why", exact=True)).to_contain_text(markup)
    assert page.locator("img[onerror]").count() == 0
    assert page.title() != "taken"
    cluster.request("DELETE", "/api/v1/namespaces/training/pods/hostile")
    cluster.request("DELETE", "/apis/resource.k8s.io/v1/namespaces/training/resourceclaims/hostile")


def test_the_map_shows_partitions_and_shares_and_leads_from_node_to_pod(page: Page):
    visit(page, "map")
    card = page.get_by_role("region", name="node-1", exact=True)
    partitions = card.locator(".set").first
    expect(partitions).to_contain_text("card-0")
    expect(partitions.locator(".capbar").first).to_contain_text("memory")
    shared = page.locator(".cell.s-shared").first
    expect(shared.locator(".cellfill")).to_be_attached()
    expect(page.locator(".share", has=page.locator(".cell.s-shared")).first).to_contain_text("30G of 100G")
    expect(page.locator(".cell.s-tainted")).to_have_count(1)
    expect(page.locator(".cell.s-withheld")).to_have_count(2)
    shared.click()
    expect(page.get_by_role("region", name="Capacity").first).to_contain_text("30G of 100G")
    page.get_by_role("region", name="Who has it").locator("a[href*='claim']").first.click()
    expect(page.locator(".headstate")).to_have_text("allocated,reserved")
    page.get_by_role("region", name="What it is").locator("a[href*='pod']").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("serving/gateway-")
    visit(page, "map?group=model&colour=resource.kubernetes.io/pcieRoot")
    expect(page.locator(".mapsection").first).to_be_visible()
    expect(page.locator(".legend")).to_contain_text("pci0000:01")


def test_a_page_follows_what_no_table_shows(page: Page, cluster: DrayProcess):
    visit(page, "node?id=node-2")
    expect(page.get_by_role("heading", level=1)).to_have_text("node-2")
    expect(page.get_by_text("example.com/rack=7")).to_have_count(0)
    cluster.patch("/api/v1/nodes/node-2", {"metadata": {"labels": {"example.com/rack": "7"}}})
    expect(page.get_by_text("example.com/rack=7").first).to_be_visible()
    node = cluster.get("/api/v1/nodes/node-2")["metadata"]
    involved = {"kind": "Node", "name": "node-2", "uid": node["uid"], "apiVersion": "v1"}
    event = {
        "metadata": {"name": "node-2.fan", "namespace": "default"},
        "involvedObject": involved,
        "reason": "FanReplaced",
        "type": "Normal",
        "message": "it is quiet again",
    }
    cluster.request("POST", "/api/v1/namespaces/default/events", event)
    expect(page.get_by_role("region", name="Events").first).to_contain_text("FanReplaced", timeout=15_000)


def test_pods_that_wait_for_the_same_reason_are_one_entry(page: Page, cluster: DrayProcess):
    create(cluster, *(showcase.pod(f"twin-{number}", "serving", "nowhere") for number in range(3)))
    entry = page.locator(".waiting li", has_text="no ResourceClaimTemplate nowhere")
    expect(entry).to_have_count(1)
    expect(entry).to_contain_text("serving/twin-0")
    entry.get_by_role("link", name="and 2 other pods").click()
    expect(page.locator(".count")).to_have_text("3 pods")
    visit(page, "overview?ns=training")
    expect(page.get_by_role("region", name="Waiting")).to_contain_text("training/huge")
    expect(page.get_by_role("region", name="Waiting")).not_to_contain_text("serving/")
    expect(page.get_by_role("region", name="What happened last")).not_to_contain_text("serving/")
    for number in range(3):
        cluster.request("DELETE", f"/api/v1/namespaces/serving/pods/twin-{number}")


def test_a_selector_is_tried_as_it_is_typed(page: Page):
    visit(page, "try")
    prompt = page.get_by_label("CEL expression")
    prompt.fill('device.driver == "net.example.com"')
    answer = page.locator(".celanswer")
    expect(answer).to_contain_text(re.compile(r"6 of \d+ devices match"))
    expect(answer).to_contain_text("Cost: at most")
    prompt.press_sequentially(" &&")
    expect(page.locator(".problem")).to_contain_text("Syntax error")
    assert "cel=" in page.url
    page.get_by_label("Devices for each pod").fill("8")
    page.get_by_label("Pods", exact=True).fill("9")
    page.get_by_label("Device class").select_option("gpu.example.com")
    page.get_by_role("button", name="Would it fit?").click()
    expect(page.locator(".fitanswer")).to_contain_text("of 9 fit.")
    expect(page.locator(".fitanswer")).to_contain_text("What would help")
    page.get_by_label("Devices for each pod").fill("2")
    page.get_by_label("Device class").select_option("net.example.com")
    page.get_by_role("button", name="How many fit?").click()
    expect(page.locator(".fitanswer")).to_contain_text(re.compile(r"\d+ would fit\."))
    expect(page.locator(".fitanswer")).to_contain_text("Why no more fit")


def test_the_page_comes_back_after_its_server_was_restarted(page: Page, cluster: DrayProcess):
    live = page.locator(".connection")
    os.kill(dashboard_process(cluster), signal.SIGKILL)
    expect(live).to_contain_text("lost")
    expect(live).to_have_text("Live", timeout=20_000)
    create(cluster, showcase.namespace("later"), showcase.device_class("later.example.com"))
    visit(page, "classes")
    expect(page.get_by_role("link", name="later.example.com")).to_be_visible()


def test_rights_on_one_namespace_are_enough_and_the_page_says_what_it_cannot_see(
    browser: Browser, cluster: DrayProcess, tmp_path: Path
):
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/serving"
    rules = [{"apiGroups": ["", "resource.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    cluster.request("POST", "/api/v1/namespaces/serving/serviceaccounts", {"metadata": {"name": "looks"}})
    cluster.request("POST", f"{rbac}/roles", {"metadata": {"name": "looks"}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "looks"}
    who = {"kind": "ServiceAccount", "name": "looks", "namespace": "serving"}
    binding = {"metadata": {"name": "looks"}, "roleRef": role, "subjects": [who]}
    cluster.request("POST", f"{rbac}/rolebindings", binding)
    granted = cluster.request("POST", "/api/v1/namespaces/serving/serviceaccounts/looks/token", {"spec": {}})
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": granted["status"]["token"]}
    config["contexts"][0]["context"]["namespace"] = "serving"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    log = tmp_path / "ui.log"
    command = [DRAY, "ui", "--kubeconfig", str(kubeconfig), "--listen", f"127.0.0.1:{free_port()}"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        found = wait_for_sync(
            "the address of the dashboard",
            lambda: re.search(r"The dashboard is at (\S+)", log.read_text()),
            log=log.read_text,
        )
        page = browser.new_context().new_page()
        page.goto(found[1])
        notice = page.locator(".notice")
        expect(notice).to_contain_text("You may not read ResourceSlice, DeviceClass, DeviceTaintRule, Node")
        expect(notice).to_contain_text("those of namespace serving are shown")
        waiting = page.get_by_role("region", name="Waiting")
        expect(waiting).not_to_contain_text("training/")
        expect(waiting).to_contain_text("cannot allocate all claims")  # the scheduler's words
        expect(page.locator("main")).to_contain_text("You may not read ResourceSlices")
        expect(page.locator("nav a", has_text="Devices")).to_have_text("Devices–")
        waiting.get_by_role("link", name="serving/ranker").click()
        expect(page.locator(".why")).to_contain_text("why cannot be told, as you may not read Node")
        page.context.close()
    finally:
        process.terminate()
        process.wait(20)


def dashboard_process(cluster: DrayProcess) -> int:
    children = Path(f"/proc/{cluster.process.pid}/task/{cluster.process.pid}/children").read_text().split()
    found = [int(one) for one in children if b"--listen-fd" in Path(f"/proc/{one}/cmdline").read_bytes()]
    assert len(found) == 1
    return found[0]


def test_what_is_chosen_is_in_the_address_and_keys_do_what_they_say(page: Page):
    visit(page, "devices")
    page.keyboard.press("/")
    page.keyboard.type("mig card-1")
    page.get_by_role("button", name="free", exact=True).click()
    page.get_by_role("button", name="Node").click()
    page.get_by_label("Namespace").select_option("")
    expect(page.locator(".count")).to_have_text(re.compile(r"\d+ devices"))
    chosen = page.url
    assert all(part in chosen for part in ("q=mig+card-1", "state=free", "sort=node"))
    count = page.locator(".count").inner_text()
    page.reload()
    expect(page.locator(".count")).to_have_text(count)
    assert page.url == chosen
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    selected = page.locator(".row.selected")
    expect(selected).to_have_attribute("aria-rowindex", "3")
    name = selected.locator("a").first.inner_text()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", level=1)).to_have_text("Devices")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).not_to_be_visible()
    visit(page, "devices")
    page.set_viewport_size({"width": 1300, "height": 400})
    expect(page.locator(".body .row[aria-rowindex='2']")).to_be_attached()
    page.locator("#content").evaluate("main => { main.scrollTop = main.scrollHeight }")
    expect(page.locator(".body .row[aria-rowindex='2']")).not_to_be_attached()  # drawn on demand
    expect(page.locator(".body .row").last).to_be_in_viewport()
    visit(page, "overview")
    page.keyboard.press("/")
    page.keyboard.type("ranker")
    expect(page.get_by_role("heading", level=1)).to_have_text("Search")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("serving/ranker")
    expect(page.get_by_label("Search", exact=True)).to_have_value("")
    visit(page, "map")
    page.locator(".cell").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".cell").nth(1)).to_be_focused()


def test_axe_finds_nothing_serious_on_any_page(page: Page, cluster: DrayProcess):
    claims = cluster.get("/apis/resource.k8s.io/v1/namespaces/serving/resourceclaims")["items"]
    claim = claims[0]["metadata"]["name"]
    pages = [
        "overview", "map", "map?group=model&colour=model", "devices", "claims", "pods", "nodes", "classes", "pools", "slices",
        "try?cel=device.driver", "slice?id=node-1-mig-counters",
        "search?q=node-1", "pod?id=training/huge", f"claim?id=serving/{claim}", "class?id=gpu.example.com",
        "device?id=mig.example.com/node-1-mig/card-0-1g-0", "node?id=node-1", "pool?id=fpga.example.com/node-1-fpga",
    ]  # fmt: skip
    axe = Axe()
    found = []
    dark = {
        "overview",
        "map",
        "map?group=model&colour=model",
        "pod?id=training/huge",
    }  # there only the colours differ
    for scheme, several in (("light", pages), ("dark", [one for one in pages if one in dark])):
        page.emulate_media(color_scheme=scheme)
        only: Any = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21aa"]}
        if scheme == "dark":
            only = {"type": "rule", "values": ["color-contrast"]}
        for one in several:
            visit(page, one)
            expect(page.locator("main .loading")).to_have_count(0)
            results = axe.run(page, options={"resultTypes": ["violations"], "runOnly": only})
            found += [
                (scheme, one, problem["id"], [node["html"][:120] for node in problem["nodes"][:2]])
                for problem in results.response["violations"]
                if problem["impact"] in ("serious", "critical")
            ]
    assert found == []
