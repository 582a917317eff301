// karpenter is Karpenter, its controllers as upstream has them, with a cloud at its edge that misbehaves when told to.
//
//	NodeClaims ─► Karpenter's controllers ─► cloud.go ─┬─ market.go    what is on offer, at what price
//	                                                   ├─ fates.go     which launch meets which fault
//	                                                   └─ machines.go ─► Nodes, which KWOK plays
//	controls.json (the test writes) ─► controls.go ────┘      └────────► lives.jsonl (the cloud's own bill)
//
// Upstream's KWOK provider still turns a claim into a node's labels and shape. It opens no port. Everything that is
// not in the claims is in two files of the directory that WARPYARD_CLOUD_DIR names.
package main

import (
	"fmt"
	"log"
	"os"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	kwokapis "sigs.k8s.io/karpenter/kwok/apis"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/apis"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "crds" {
		printCustomResources()
		return
	}
	dir := os.Getenv("WARPYARD_CLOUD_DIR")
	if dir == "" {
		log.Fatal("WARPYARD_CLOUD_DIR must name the directory of the cloud's files")
	}
	listenNowhere()
	ctx, op := operator.NewOperator()
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		log.Fatalf("cannot read the instance types: %v", err)
	}
	cloud, err := openCloud(dir, op.GetClient(), types)
	if err != nil {
		log.Fatalf("cannot open the cloud in %s: %v", dir, err)
	}
	if err := op.Manager.Add(cloud); err != nil {
		log.Fatalf("cannot add the cloud: %v", err)
	}
	decorated := overlay.Decorate(cloud, op.GetClient(), op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, op.GetClient(), decorated)
	op.WithControllers(ctx, controllers.NewControllers(
		ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, decorated, cloud, cluster, op.InstanceTypeStore,
	)...).Start(ctx)
}

// listenNowhere keeps Karpenter from opening its two ports: it would do so on all interfaces, whatever it is told.
func listenNowhere() {
	ctrl.NewManager = func(config *rest.Config, options manager.Options) (manager.Manager, error) {
		options.Metrics.BindAddress = "0"
		options.HealthProbeBindAddress = "0"
		return manager.New(config, options)
	}
}

// printCustomResources writes what must be installed before Karpenter starts, as YAML.
func printCustomResources() {
	for _, crd := range [][]byte{
		apis.NodePoolCRD, apis.NodeClaimCRD, apis.NodeOverlayCRD, apis.CapacityBufferCRD, kwokapis.KWOKNodeClassCRD,
	} {
		fmt.Printf("---\n%s\n", crd)
	}
}
