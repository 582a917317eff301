// gpu-plugin offers GPUs that are not there to a kubelet, for the test cluster's real nodes.
//
//	kubelet starts, empties its plugins' folder ─► our socket is gone ─► it answers ─► listen again, register again
//	kubelet places a container ─► Allocate ─► NVIDIA_VISIBLE_DEVICES names the GPUs it got
//
// It speaks the device plugin API of the real plugin and nothing else: no device is opened or mounted.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	socketName = "warpyard-gpu.sock"
	// A kubelet that started anew waits this long for its GPUs.
	lookInterval = 100 * time.Millisecond
	// More than any machine has; it bounds what the kubelet must keep.
	gpusMax = 64
)

func main() {
	resource := flag.String("resource", "nvidia.com/gpu", "the extended resource")
	count := flag.Int("count", 8, "how many GPUs")
	prefix := flag.String("prefix", "gpu", "GPUs are called <prefix>-0, <prefix>-1, ...")
	flag.Parse()
	if *count < 0 || *count > gpusMax {
		log.Fatalf("--count must be between 0 and %d", gpusMax)
	}
	gpus := &gpus{names: names(*prefix, *count)}
	for {
		if err := gpus.serve(*resource); err != nil {
			log.Print(err)
		}
		time.Sleep(lookInterval)
	}
}

// names calls GPUs so that no two nodes have one of the same name.
func names(prefix string, count int) []string {
	var names []string
	for i := range count {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
	}
	return names
}

type gpus struct {
	plugin.UnimplementedDevicePluginServer
	names []string
}

// serve offers the GPUs to the kubelet that runs now, and returns when another has taken its place.
func (g *gpus) serve(resource string) error {
	// One that answers has emptied the folder already. Before that it would take our socket away, and look for it in vain.
	kubelet, err := net.Dial("unix", plugin.KubeletSocket)
	if err != nil {
		return err
	}
	kubelet.Close()
	socket := filepath.Join(plugin.DevicePluginPath, socketName)
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	defer server.Stop()
	plugin.RegisterDevicePluginServer(server, g)
	go server.Serve(listener)
	if err := register(resource); err != nil {
		return fmt.Errorf("cannot register %s: %w", resource, err)
	}
	log.Printf("registered %d of %s", len(g.names), resource)
	for exists(socket) {
		time.Sleep(lookInterval)
	}
	return nil
}

func register(resource string) error {
	connection, err := grpc.NewClient("unix://"+plugin.KubeletSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	bound, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = plugin.NewRegistrationClient(connection).Register(bound, &plugin.RegisterRequest{
		Version:      plugin.Version,
		Endpoint:     socketName,
		ResourceName: resource,
		Options:      &plugin.DevicePluginOptions{},
	})
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (g *gpus) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

// ListAndWatch names the GPUs once: they never fail by themselves.
func (g *gpus) ListAndWatch(_ *plugin.Empty, stream plugin.DevicePlugin_ListAndWatchServer) error {
	var devices []*plugin.Device
	for _, name := range g.names {
		devices = append(devices, &plugin.Device{ID: name, Health: plugin.Healthy})
	}
	if err := stream.Send(&plugin.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (g *gpus) Allocate(_ context.Context, request *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	answer := &plugin.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &plugin.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
		})
	}
	return answer, nil
}
