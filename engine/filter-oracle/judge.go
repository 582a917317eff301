package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// judged are the plugins of the default profile whose rules Warpyard follows.
var judged = []string{
	names.SchedulingGates, names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity,
	names.NodePorts, names.NodeResourcesFit, names.PodTopologySpread, names.InterPodAffinity,
	names.NodeDeclaredFeatures,
}

// needed are plugins without which no framework starts. They filter nothing.
var needed = []string{names.PrioritySort, names.DefaultBinder}

// judge runs upstream's framework, once set up, on one snapshot after the other.
type judge struct {
	framework  framework.Framework
	snapshot   *currentSnapshot
	namespaces cache.Indexer
}

// currentSnapshot is what the plugins were given when they were set up: it leads to the snapshot of the case at hand.
type currentSnapshot struct{ *internalcache.Snapshot }

func newJudge(ctx context.Context) (*judge, error) {
	klog.SetLogger(logr.Discard())
	metrics.Register()
	profile, err := defaultProfile()
	if err != nil {
		return nil, err
	}
	snapshot := &currentSnapshot{internalcache.NewEmptySnapshot()}
	// Never started: the namespaces are put into its store by hand, and everything else stays empty.
	informerFactory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	upstream, err := runtime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		runtime.WithInformerFactory(informerFactory), runtime.WithSnapshotSharedLister(snapshot))
	if err != nil {
		return nil, err
	}
	namespaces := informerFactory.Core().V1().Namespaces().Informer().GetIndexer()
	return &judge{framework: upstream, snapshot: snapshot, namespaces: namespaces}, nil
}

// defaultProfile is the profile of a kube-scheduler without any configuration, without volumes, DRA and scores.
func defaultProfile() (*config.KubeSchedulerProfile, error) {
	var versioned configv1.KubeSchedulerConfiguration
	scheme.Scheme.Default(&versioned)
	var configuration config.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&versioned, &configuration, nil); err != nil {
		return nil, err
	}
	profile := &configuration.Profiles[0]
	enabled := &profile.Plugins.MultiPoint.Enabled
	*enabled = slices.DeleteFunc(*enabled, func(plugin config.Plugin) bool {
		return !slices.Contains(judged, plugin.Name) && !slices.Contains(needed, plugin.Name)
	})
	if len(*enabled) != len(judged)+len(needed) {
		return nil, fmt.Errorf("the default profile lacks some of %v", judged)
	}
	return profile, nil
}

// verdicts judges every node, in the way of the scheduler's findNodesThatFitPod.
func (j *judge) verdicts(ctx context.Context, stored *cluster) (map[string]verdict, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := j.load(ctx, stored); err != nil {
		return nil, err
	}
	nodes, err := j.snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	if len(nodes) != len(stored.Nodes) {
		return nil, fmt.Errorf("%d nodes in the snapshot, %d in the case", len(nodes), len(stored.Nodes))
	}
	everywhere := func(status *fwk.Status) map[string]verdict {
		verdicts := map[string]verdict{}
		for _, node := range nodes {
			verdicts[node.Node().Name] = refusal(status)
		}
		return verdicts
	}
	for _, plugin := range j.framework.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, stored.Pod); !status.IsSuccess() {
			return everywhere(status.WithPlugin(plugin.Name())), nil
		}
	}
	state := framework.NewCycleState()
	reduced, status, by := j.framework.RunPreFilterPlugins(ctx, state, stored.Pod)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, status.AsError()
		}
		if status.Plugin() == "" {
			status = status.WithPlugin(strings.Join(sorted(by.UnsortedList()), ","))
		}
		return everywhere(status), nil
	}
	verdicts := map[string]verdict{}
	for _, node := range nodes {
		name := node.Node().Name
		if !reduced.AllNodes() && !reduced.NodeNames.Has(name) {
			verdicts[name] = verdict{Plugin: strings.Join(sorted(by.UnsortedList()), ","), Reason: "not asked for"}
			continue
		}
		status := j.framework.RunFilterPlugins(ctx, state, stored.Pod, node)
		if status.IsSuccess() {
			verdicts[name] = verdict{Fits: true}
		} else if status.IsRejected() {
			verdicts[name] = refusal(status)
		} else {
			return nil, status.AsError()
		}
	}
	return verdicts, nil
}

// load brings the case into a cache and a snapshot of upstream's, through the same doors as the scheduler's watches.
func (j *judge) load(ctx context.Context, stored *cluster) error {
	namespaces := make([]any, 0, len(stored.Namespaces))
	for _, namespace := range stored.Namespaces {
		namespaces = append(namespaces, namespace)
	}
	if err := j.namespaces.Replace(namespaces, ""); err != nil {
		return err
	}
	logger := klog.FromContext(ctx)
	schedulerCache := internalcache.New(ctx, nil, false)
	for _, node := range stored.Nodes {
		schedulerCache.AddNode(logger, node)
	}
	for _, pod := range stored.Pods {
		// The scheduler's pod watch selects by phase, and its cache takes assigned pods only.
		isOver := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		if isOver || pod.Spec.NodeName == "" {
			continue
		}
		if err := schedulerCache.AddPod(logger, pod); err != nil {
			return err
		}
	}
	snapshot := internalcache.NewEmptySnapshot()
	j.snapshot.Snapshot = snapshot
	return schedulerCache.UpdateSnapshot(logger, snapshot)
}

func refusal(status *fwk.Status) verdict {
	return verdict{Plugin: status.Plugin(), Reason: status.Message()}
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}
