// The hook flavor-sizing in JavaScript: what plugins/flavor-sizing does for a flavor, with the same cases.
//
// Main gets the flavor's resources and devices, each sidecar of the request the share for sidecars, and nothing else is sized.

const SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: {},
  additionalProperties: false,
};

export const plugin = {
  describe() {
    return {
      name: "flavor-javascript",
      version: "0.1.0",
      summary: "Sizes main and sidecars by the flavor.",
      settingsSchema: JSON.stringify(SCHEMA),
      grants: [],
    };
  },

  checkSettings() {},
};

// An option that is not there is null.
export const flavorSizing = {
  size(flavor, workload) {
    if (workload.containers.some((container) => container.resources != null)) {
      throw { kind: "invalid-argument", code: "compute_resources_capability_required", message: "" };
    }
    if (flavor == null) {
      return { byRole: [], byName: [], supplementalGroups: [] };
    }
    const byRole = [{ role: "main", resources: withDevices(flavor.main, flavor.devices) }];
    if (flavor.sidecar != null) {
      byRole.push({ role: "sidecar", resources: flavor.sidecar });
    }
    return {
      byRole: byRole.filter(({ resources }) => resources.requests.length + resources.limits.length > 0),
      byName: [],
      supplementalGroups: flavor.supplementalGroups,
    };
  },
};

// Kubernetes wants request and limit of a device, and equal.
function withDevices(resources, devices) {
  const counts = devices.map((device) => [device.name, String(device.count)]);
  return { requests: [...resources.requests, ...counts], limits: [...resources.limits, ...counts] };
}
