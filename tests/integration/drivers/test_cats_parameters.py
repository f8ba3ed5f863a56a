"""Parameters for 1.30's scheduler, generated from the driver's own kind."""

from __future__ import annotations

from typing import Any

from dray.client.discovery import Discovery
from dray.client.resources import (
    CLASSIC_RESOURCE_CLASSES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEVICE_CLASSES,
    RESOURCE_CLAIM_PARAMETERS,
    RESOURCE_CLASS_PARAMETERS,
)
from dray.drivers.cats import DRIVER, classparameters, deviceclass
from dray.drivers.cats.install import install_parameters
from dray.drivers.cats.parameters import CLAIM_PARAMETERS, DEFINITION, generate
from tests.support.controlplane import ControlPlane, cluster, run_component
from tests.support.wait import wait_for


def wish(**spec: str) -> dict[str, Any]:
    return {"metadata": {"name": "black"}, "spec": spec}


async def selectors(scene: ControlPlane) -> list[str]:
    listed = (await scene.client.list(RESOURCE_CLAIM_PARAMETERS, "default")).items
    return [p["driverRequests"][0]["requests"][0]["namedResources"]["selector"] for p in listed]


async def become(scene: ControlPlane, *wanted: str) -> None:
    async def there() -> bool:
        return await selectors(scene) == list(wanted)

    await wait_for(f"selectors {wanted}", there)


async def test_generated_parameters_follow_their_origin_and_give_way_to_others() -> None:
    async with cluster("1.30", nodes=()) as scene:
        await scene.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", DEFINITION)

        async def served() -> bool:
            return await Discovery(scene.client).serves(CLAIM_PARAMETERS)

        await wait_for("the parameters' kind to be served", served)
        driver = scene.client_of("cats")
        async with run_component(lambda: generate(driver)):
            made = await scene.client.create(CLAIM_PARAMETERS, "default", wish(color="black"))
            await become(scene, 'attributes.string["color"] == "black"')
            changed = {**made, "spec": {"size": "large"}}
            await scene.client.update(CLAIM_PARAMETERS, "default", changed)
            await become(scene, 'attributes.string["size"] == "large"')
            origin = {"apiGroup": CLAIM_PARAMETERS.group, "kind": CLAIM_PARAMETERS.kind, "name": "black"}
            request = {"namedResources": {"selector": "true"}}
            own = {
                "metadata": {"name": "by-hand"},
                "generatedFrom": origin,
                "driverRequests": [{"driverName": DRIVER, "requests": [request]}],
            }
            await scene.client.create(RESOURCE_CLAIM_PARAMETERS, "default", own)
            await become(scene, "true")
            await scene.client.delete(RESOURCE_CLAIM_PARAMETERS, "default", "by-hand")
            await become(scene, 'attributes.string["size"] == "large"')
            await scene.client.delete(CLAIM_PARAMETERS, "default", "black")
            await become(scene)


async def test_parameters_of_a_class_become_a_filter_for_the_scheduler() -> None:
    def resource_class(name: str, origin: str) -> dict[str, Any]:
        reference = {
            "apiGroup": CLAIM_PARAMETERS.group, "kind": CLAIM_PARAMETERS.kind, "name": origin, "namespace": "default",
        }  # fmt: skip
        return {
            "metadata": {"name": name}, "driverName": DRIVER, "structuredParameters": True, "parametersRef": reference,
        }  # fmt: skip

    async def filters() -> list[tuple[str, str]]:
        listed = (await scene.client.list(RESOURCE_CLASS_PARAMETERS, "default")).items
        return [(p["generatedFrom"]["name"], p["filters"][0]["namedResources"]["selector"]) for p in listed]

    async def are(*wanted: tuple[str, str]) -> None:
        async def there() -> bool:
            return await filters() == list(wanted)

        await wait_for(f"filters {wanted}", there)

    async with cluster("1.30", nodes=()) as scene:
        await scene.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", DEFINITION)

        async def served() -> bool:
            return await Discovery(scene.client).serves(CLAIM_PARAMETERS)

        await wait_for("the parameters' kind to be served", served)
        driver = scene.client_of("cats")
        async with run_component(lambda: classparameters.generate(driver)):
            made = await scene.client.create(CLAIM_PARAMETERS, "default", wish(color="black"))
            await scene.client.create(CLASSIC_RESOURCE_CLASSES, "", resource_class("black-cats", "black"))
            await are(("black", 'attributes.string["color"] == "black"'))
            await scene.client.update(CLAIM_PARAMETERS, "default", {**made, "spec": {"size": "large"}})
            await are(("black", 'attributes.string["size"] == "large"'))


async def test_a_device_class_that_names_the_driver_selects_cats() -> None:
    def device_class(name: str, driver: str) -> dict[str, Any]:
        selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
        return {"metadata": {"name": name}, "spec": {"selectors": [selector]}}

    async with cluster("", nodes=()) as scene:
        await scene.client.create(DEVICE_CLASSES, "", device_class("gpu", "gpu.example.com"))
        driver = scene.client_of("cats")
        assert not await deviceclass.class_exists(driver)
        async with run_component(lambda: deviceclass.wait_for_class(driver)) as waiting:
            await scene.client.create(DEVICE_CLASSES, "", device_class("cats", DRIVER))
            await waiting
        assert await deviceclass.class_exists(driver)


async def test_the_controller_brings_the_kind_of_its_parameters() -> None:
    async with cluster("1.30", nodes=()) as scene:
        for _ in range(2):
            await install_parameters(scene.client)
        await scene.client.create(CLAIM_PARAMETERS, "default", wish(color="black"))
