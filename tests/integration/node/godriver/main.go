// A driver on the unchanged Go library (k8s.io/dynamic-resource-allocation/kubeletplugin), to see that it gets on with
// dray's node agent and API server. Build it inside a checkout of Kubernetes: copy this directory to cmd/godriver and
// run "go build ./cmd/godriver"; tests find the binary through DRAY_TEST_GO_DRIVER.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

type driver struct {
	name string
	cdi  string
}

func (d *driver) spec(uid types.UID) string {
	return filepath.Join(d.cdi, fmt.Sprintf("%s_%s.json", d.name, uid))
}

func (d *driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		var devices []kubeletplugin.Device
		var specs []any
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.Driver != d.name {
				continue
			}
			name := string(claim.UID) + "-" + result.Device
			specs = append(specs, map[string]any{
				"name":           name,
				"containerEdits": map[string]any{"env": []string{"DEVICE=" + result.Device}},
			})
			devices = append(devices, kubeletplugin.Device{
				Requests:     []string{result.Request},
				PoolName:     result.Pool,
				DeviceName:   result.Device,
				CDIDeviceIDs: []string{d.name + "/dev=" + name},
			})
		}
		data, _ := json.Marshal(map[string]any{"cdiVersion": "0.5.0", "kind": d.name + "/dev", "devices": specs})
		if err := os.WriteFile(d.spec(claim.UID), data, 0o644); err != nil {
			results[claim.UID] = kubeletplugin.PrepareResult{Err: err}
			continue
		}
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices}
	}
	return results, nil
}

func (d *driver) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		_ = os.Remove(d.spec(claim.UID))
		results[claim.UID] = nil
	}
	return results, nil
}

func (d *driver) HandleError(ctx context.Context, err error, msg string) {
	fmt.Fprintln(os.Stderr, msg, err)
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "")
	node := flag.String("node", "", "")
	name := flag.String("name", "hardware.example.com", "")
	kubelet := flag.String("kubelet", "/var/lib/kubelet", "")
	cdi := flag.String("cdi", "/var/run/cdi", "")
	v1 := flag.Bool("v1", true, "")
	v1beta1 := flag.Bool("v1beta1", true, "")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		panic(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	data := filepath.Join(*kubelet, "plugins", *name)
	for _, directory := range []string{data, *cdi, filepath.Join(*kubelet, "plugins_registry")} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			panic(err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	d := &driver{name: *name, cdi: *cdi}
	helper, err := kubeletplugin.Start(ctx, d,
		kubeletplugin.DriverName(*name),
		kubeletplugin.NodeName(*node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(*kubelet, "plugins_registry")),
		kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.NodeV1(*v1),
		kubeletplugin.NodeV1beta1(*v1beta1),
	)
	if err != nil {
		panic(err)
	}
	devices := []resourceapi.Device{}
	for i := 0; i < 8; i++ {
		devices = append(devices, resourceapi.Device{Name: fmt.Sprintf("dev-%d", i)})
	}
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{{Devices: devices}}}
	resources := resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{*node: pool}}
	if err := helper.PublishResources(ctx, resources); err != nil {
		panic(err)
	}
	fmt.Println("ready")
	<-ctx.Done()
	helper.Stop()
}
