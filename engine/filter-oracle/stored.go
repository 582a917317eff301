package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
)

// store gives the case as the API server would have stored it: with defaults, with what it writes on creation (for
// example selectors merged with matchLabelKeys), and only if it is valid. Both sides of a comparison read this.
func store(ctx context.Context, given *cluster) (*cluster, []string, error) {
	stored := &cluster{Namespaces: []*v1.Namespace{}, Nodes: []*v1.Node{}}
	var invalid []string
	known := sets.New[string]()
	for _, namespace := range given.Namespaces {
		legacyscheme.Scheme.Default(namespace)
		stored.Namespaces = append(stored.Namespaces, namespace)
		known.Insert(namespace.Name)
	}
	for _, node := range given.Nodes {
		problems, err := checkNode(node)
		if err != nil {
			return nil, nil, err
		}
		invalid = append(invalid, problems...)
		stored.Nodes = append(stored.Nodes, node)
	}
	for _, pod := range append([]*v1.Pod{given.Pod}, given.Pods...) {
		kept, problems, err := storePod(ctx, pod)
		if err != nil {
			return nil, nil, err
		}
		if !known.Has(pod.Namespace) {
			problems = append(problems, "pod "+pod.Name+": its namespace is not there")
		}
		invalid = append(invalid, problems...)
		stored.Pods = append(stored.Pods, kept)
	}
	stored.Pod, stored.Pods = stored.Pods[0], stored.Pods[1:]
	return stored, invalid, nil
}

// checkNode puts defaults into the node: a create changes nothing else in it.
func checkNode(node *v1.Node) ([]string, error) {
	legacyscheme.Scheme.Default(node)
	internal := &api.Node{}
	if err := legacyscheme.Scheme.Convert(node, internal, nil); err != nil {
		return nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	return problems("node "+node.Name, validation.ValidateNode(internal)), nil
}

func storePod(ctx context.Context, pod *v1.Pod) (*v1.Pod, []string, error) {
	legacyscheme.Scheme.Default(pod)
	internal := &api.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, internal, nil); err != nil {
		return nil, nil, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	podregistry.Strategy.PrepareForCreate(ctx, internal)
	invalid := problems("pod "+pod.Name, podregistry.Strategy.Validate(ctx, internal))
	kept := &v1.Pod{}
	if err := legacyscheme.Scheme.Convert(internal, kept, nil); err != nil {
		return nil, nil, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	// A create wipes the status; what the case says of it was written later, by a kubelet.
	if pod.Status.Phase != "" {
		kept.Status = pod.Status
	}
	return kept, invalid, nil
}

func problems(of string, errors field.ErrorList) []string {
	var found []string
	for _, err := range errors {
		found = append(found, of+": "+err.Error())
	}
	return found
}
