"""The hook flavor-sizing in Python: what plugins/flavor-sizing does for a flavor, with the same cases.

Main gets the flavor's resources and devices, each sidecar of the request the share for sidecars, and nothing else is sized.
"""

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.flavor_sizing import RoleResources, Sizing
from wit_world.exports.plugin import Description
from wit_world.imports.types import ContainerRole, Rejection, RejectionKind, Resources

SCHEMA = """{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {},
  "additionalProperties": false
}"""


class Plugin(exports.Plugin):
    def describe(self):
        return Description("flavor-python", "0.1.0", "Sizes main and sidecars by the flavor.", SCHEMA, [])

    def check_settings(self):
        return None


class FlavorSizing(exports.FlavorSizing):
    def size(self, flavor, workload):
        if any(container.resources is not None for container in workload.containers):
            code = "compute_resources_capability_required"
            raise Err(Rejection(RejectionKind.INVALID_ARGUMENT, code, ""))
        if flavor is None:
            return Sizing([], [], [])
        main = with_devices(flavor.main, flavor.devices)
        by_role = [RoleResources(ContainerRole.MAIN, main)]
        if flavor.sidecar is not None:
            by_role.append(RoleResources(ContainerRole.SIDECAR, flavor.sidecar))
        by_role = [sized for sized in by_role if sized.resources.requests or sized.resources.limits]
        return Sizing(by_role, [], flavor.supplemental_groups)


def with_devices(resources, devices):
    """Kubernetes wants request and limit of a device, and equal."""
    counts = [(device.name, str(device.count)) for device in devices]
    return Resources(resources.requests + counts, resources.limits + counts)
