package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// providerPrefix begins the address of every machine, as upstream's provider has it.
const providerPrefix = "kwok://"

// cloud is the provider that Karpenter buys from.
type cloud struct {
	client   client.Client
	types    []*cloudprovider.InstanceType
	controls controlFile

	mutex  sync.Mutex
	record *record
	// outUntil remembers offerings that were found out of stock.
	outUntil map[offer]time.Time
}

var _ cloudprovider.CloudProvider = &cloud{}

func openCloud(dir string, kube client.Client, types []*cloudprovider.InstanceType) (*cloud, error) {
	c := &cloud{
		client:   kube,
		types:    types,
		controls: controlFile{path: filepath.Join(dir, "controls.json")},
		outUntil: map[offer]time.Time{},
	}
	if _, err := c.controls.read(); err != nil {
		return nil, err
	}
	record, err := openRecord(filepath.Join(dir, "lives.jsonl"))
	c.record = record
	return c, err
}

// Create launches a machine, or refuses as the claim's fate has it.
func (c *cloud) Create(ctx context.Context, claim *v1.NodeClaim) (*v1.NodeClaim, error) {
	controls, err := c.controls.read()
	if err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	uid := string(claim.UID)
	// Clouds know a request that is repeated by its token; so a Karpenter that died over the answer buys nothing twice.
	if m := c.record.ofClaim(uid); m != nil {
		return m.Answer.DeepCopy(), nil
	}
	fate, err := c.fateOf(claim, controls)
	if err != nil {
		return nil, err
	}
	refuse := func(why string) error {
		return c.record.note(event{Event: eventRefused, At: time.Now(), Claim: claim.Name, ClaimUID: uid, Why: why})
	}
	switch {
	case fate.Kind == fateStockOut:
		if err := refuse("its fate is to find no stock"); err != nil {
			return nil, err
		}
		return nil, cloudprovider.NewInsufficientCapacityError(fmt.Errorf("no capacity for %s", claim.Name))
	case fate.Kind == fateError && c.record.fates.refused[uid] < fate.Times:
		if err := refuse("its fate is an error"); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("the cloud failed to launch %s", claim.Name)
	}
	chosen, out := choose(priced(c.types, controls, func(offer) bool { return false }), claim, controls, c.record.counts)
	for _, o := range out {
		c.outUntil[o] = time.Now().Add(time.Duration(controls.StockOutMemorySeconds) * time.Second)
	}
	if chosen == nil {
		if err := refuse(fmt.Sprintf("no offering: %d are out of stock", len(out))); err != nil {
			return nil, err
		}
		return nil, cloudprovider.NewInsufficientCapacityError(
			fmt.Errorf("nothing satisfies %s: %d offerings are out of stock", claim.Name, len(out)))
	}
	answer, err := c.answer(ctx, claim, chosen)
	if err != nil {
		return nil, err
	}
	m := launch(claim, chosen, *answer, fate, controls)
	return answer, c.record.note(event{Event: eventLaunched, At: m.Launched, Instance: m.Instance, Machine: m})
}

func (c *cloud) fateOf(claim *v1.NodeClaim, controls controls) (fate, error) {
	uid := string(claim.UID)
	if known, ok := c.record.fates.ofClaim[uid]; ok {
		return known, nil
	}
	d := c.record.fates.decide(claim, controls)
	err := c.record.note(event{Event: eventFate, At: time.Now(), Claim: claim.Name, ClaimUID: uid, Fate: &d})
	return d.fate, err
}

// answer lets upstream's provider say what the machine is like. It is shown one offering, so it has nothing to choose,
// and a client by which it registers nothing: machines boot in their own time.
func (c *cloud) answer(ctx context.Context, claim *v1.NodeClaim, chosen *choice) (*v1.NodeClaim, error) {
	narrowed := claim.DeepCopy()
	narrowed.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{{
		Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{chosen.instanceType.Name},
	}}
	for _, requirement := range claim.Spec.Requirements {
		if requirement.Key != corev1.LabelInstanceTypeStable {
			narrowed.Spec.Requirements = append(narrowed.Spec.Requirements, requirement)
		}
	}
	types := []*cloudprovider.InstanceType{chosen.instanceType}
	answer, err := kwok.NewCloudProvider(ctx, bootless{c.client}, types).Create(ctx, narrowed)
	if err != nil {
		return nil, err
	}
	// A kubelet reports what the machine has; upstream's provider repeats what the claim asked for.
	answer.Status.Capacity = chosen.instanceType.Capacity
	answer.Status.Allocatable = chosen.instanceType.Allocatable()
	return answer, nil
}

// launch says when the machine boots and whether it stays.
func launch(claim *v1.NodeClaim, chosen *choice, answer v1.NodeClaim, fate fate, controls controls) *machine {
	now := time.Now()
	after := func(milliseconds int64) *time.Time {
		at := now.Add(time.Duration(milliseconds) * time.Millisecond)
		return &at
	}
	answer.CreationTimestamp = metav1.NewTime(now)
	m := &machine{
		Instance: answer.Status.NodeName, Claim: claim.Name, ClaimUID: string(claim.UID),
		Offer: chosen.offer, MicrosPerHour: chosen.micros,
		Launched: now, RegistersAt: after(controls.BootMilliseconds), Answer: answer,
	}
	switch fate.Kind {
	case fateSlow:
		m.RegistersAt = after(fate.Milliseconds)
	case fateNeverRegisters:
		m.RegistersAt = nil
	case fateDisappears:
		m.EndsAt = after(fate.Milliseconds)
	}
	return m
}

// bootless is a client that does not register Nodes.
type bootless struct{ client.Client }

func (b bootless) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if _, ok := object.(*corev1.Node); ok {
		return nil
	}
	return b.Client.Create(ctx, object, options...)
}

// Delete ends the machine of a claim at once, and its Node with it.
func (c *cloud) Delete(ctx context.Context, claim *v1.NodeClaim) error {
	name := strings.TrimPrefix(claim.Status.ProviderID, providerPrefix)
	if err := c.end(ctx, name, time.Now(), "deleted"); err != nil {
		return err
	}
	return cloudprovider.NewNodeClaimNotFoundError(fmt.Errorf("%s is terminated", name))
}

func (c *cloud) Get(_ context.Context, providerID string) (*v1.NodeClaim, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	m := c.record.alive[strings.TrimPrefix(providerID, providerPrefix)]
	if m == nil {
		return nil, cloudprovider.NewNodeClaimNotFoundError(fmt.Errorf("there is no machine %s", providerID))
	}
	return m.Answer.DeepCopy(), nil
}

func (c *cloud) List(context.Context) ([]*v1.NodeClaim, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	claims := make([]*v1.NodeClaim, 0, len(c.record.alive))
	for _, m := range c.record.alive {
		claims = append(claims, m.Answer.DeepCopy())
	}
	return claims, nil
}

func (c *cloud) GetInstanceTypes(context.Context, *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	controls, err := c.controls.read()
	if err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now := time.Now()
	return priced(c.types, controls, func(o offer) bool { return c.outUntil[o].After(now) }), nil
}

func (c *cloud) IsDrifted(context.Context, *v1.NodeClaim) (cloudprovider.DriftReason, error) {
	return "", nil
}

func (c *cloud) RepairPolicies() []cloudprovider.RepairPolicy {
	return kwok.CloudProvider{}.RepairPolicies()
}

func (c *cloud) Name() string {
	return kwok.CloudProvider{}.Name()
}

func (c *cloud) GetSupportedNodeClasses() []status.Object {
	return kwok.CloudProvider{}.GetSupportedNodeClasses()
}
