// What @kubernetes/client-node sees of a cluster, as JSON. Arguments: its modules, a kubeconfig, a port of the pod web.
import { createRequire } from "node:module";
import net from "node:net";
import stream from "node:stream";

const [modules, kubeconfig, port] = process.argv.slice(2);
const k8s = createRequire(`${modules}/`)("@kubernetes/client-node");
const config = new k8s.KubeConfig();
config.loadFromFile(kubeconfig);
const api = config.makeApiClient(k8s.CoreV1Api);
const found = {};

const listed = await api.listNamespacedPod({ namespace: "default" });
found.list = listed.items.map((pod) => pod.metadata.name);

found.watch = await new Promise((resolve, reject) => {
  new k8s.Watch(config)
    .watch("/api/v1/namespaces/default/pods", {}, (type, pod) => resolve([type, pod.metadata.name]), reject)
    .catch(reject);
});

const merge = k8s.setHeaderOptions("Content-Type", k8s.PatchStrategy.MergePatch);
const body = { metadata: { labels: { node: "yes" } } };
const patched = await api.patchNamespacedPod({ name: "web", namespace: "default", body }, merge);
found.patch = patched.metadata.labels.node;

let said = "";
const output = new stream.Writable({
  write(chunk, _, done) {
    said += chunk;
    done();
  },
});
const status = await new Promise((resolve, reject) => {
  new k8s.Exec(config)
    .exec("default", "web", "web", ["echo", "hello"], output, output, null, false, resolve)
    .catch(reject);
});
found.exec = [status.status, said];

const forward = new k8s.PortForward(config);
const server = net.createServer((socket) => forward.portForward("default", "web", [Number(port)], socket, null, socket));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
found.forward = await new Promise((resolve, reject) => {
  const connection = net.connect(server.address().port, "127.0.0.1");
  connection.on("error", reject);
  connection.on("data", (data) => resolve(data.toString().slice(0, 12)));
  connection.write("GET /hostname HTTP/1.0\r\n\r\n");
});

console.log(JSON.stringify(found));
process.exit(0);
