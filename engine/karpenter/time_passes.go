package main

import (
	"cmp"
	"context"
	"log"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	// lookInterval is how late a machine may register or end.
	lookInterval = 50 * time.Millisecond
	// A machine whose claim is gone is ended, as the providers of clouds do, once it is this old: before, its claim may
	// be younger than what we have read.
	orphanAge          = time.Minute
	orphanLookInterval = 10 * time.Second
	// registrationsInFlight at a time; the API server makes some 700 nodes a second.
	registrationsInFlight = 16
)

// Start lets the cloud's time pass: machines boot, become ready, disappear. It begins when the caches are filled.
func (c *cloud) Start(ctx context.Context) error {
	c.mutex.Lock()
	err := c.record.note(event{Event: eventStarted, At: time.Now(), Process: os.Getpid()})
	c.mutex.Unlock()
	if err != nil {
		return err
	}
	nextOrphans := time.Now()
	for ctx.Err() == nil {
		if err := c.endWhatIsDue(ctx); err != nil {
			return err
		}
		c.forEach(func(m *machine) bool { return !m.registered && isPast(m.RegistersAt) }, func(m *machine) {
			c.register(ctx, m)
		})
		c.forEach(func(m *machine) bool { return m.registered && !m.ready }, func(m *machine) {
			c.lookWhetherReady(ctx, m)
		})
		if time.Now().After(nextOrphans) {
			nextOrphans = time.Now().Add(orphanLookInterval)
			c.endOrphans(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookInterval):
		}
	}
	return nil
}

func isPast(at *time.Time) bool {
	return at != nil && !time.Now().Before(*at)
}

// forEach acts on the machines that are picked, some at a time, in the order of their names.
func (c *cloud) forEach(pick func(*machine) bool, act func(*machine)) {
	c.mutex.Lock()
	var picked []*machine
	for _, m := range c.record.alive {
		if pick(m) {
			picked = append(picked, m)
		}
	}
	c.mutex.Unlock()
	slices.SortFunc(picked, func(a, b *machine) int { return cmp.Compare(a.Instance, b.Instance) })
	var all sync.WaitGroup
	slots := make(chan struct{}, registrationsInFlight)
	for _, m := range picked {
		slots <- struct{}{}
		all.Go(func() {
			act(m)
			<-slots
		})
	}
	all.Wait()
}

// endWhatIsDue takes away machines whose time has come, by their fate or because the test says so.
func (c *cloud) endWhatIsDue(ctx context.Context) error {
	controls, err := c.controls.read()
	if err != nil {
		return err
	}
	due := map[string]time.Time{}
	c.mutex.Lock()
	for name, m := range c.record.alive {
		if isPast(m.EndsAt) {
			due[name] = *m.EndsAt
		}
		if at, ok := controls.Reclaim[name]; ok && isPast(&at) {
			due[name] = at
		}
	}
	c.mutex.Unlock()
	for name, at := range due {
		if err := c.end(ctx, name, at, "taken by the cloud"); err != nil {
			log.Printf("cannot end %s, and try again: %v", name, err)
		}
	}
	return nil
}

// register is the machine's kubelet at its first breath.
func (c *cloud) register(ctx context.Context, m *machine) {
	if err := c.client.Create(ctx, m.node()); err != nil && !apierrors.IsAlreadyExists(err) {
		log.Printf("cannot register %s, and try again: %v", m.Instance, err)
		return
	}
	if !c.noteIfAlive(m, eventRegistered) {
		// It ended meanwhile, and whoever ended it may have found no Node.
		if err := c.removeNode(ctx, m.Instance); err != nil {
			log.Printf("cannot remove the Node of %s: %v", m.Instance, err)
		}
	}
}

func (c *cloud) lookWhetherReady(ctx context.Context, m *machine) {
	var node corev1.Node
	if err := c.client.Get(ctx, types.NamespacedName{Name: m.Instance}, &node); err != nil {
		return
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			c.noteIfAlive(m, eventReady)
		}
	}
}

func (c *cloud) noteIfAlive(m *machine, what string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.record.alive[m.Instance] == nil {
		return false
	}
	if err := c.record.note(event{Event: what, At: time.Now(), Instance: m.Instance}); err != nil {
		log.Fatal(err)
	}
	return true
}

// end stops paying for a machine and removes its Node, as a cloud's controller does whose machine is gone.
func (c *cloud) end(ctx context.Context, name string, at time.Time, why string) error {
	if err := c.removeNode(ctx, name); err != nil {
		return err
	}
	if err := c.noteEnd(name, at, why); err != nil {
		return err
	}
	// It may have registered just before it ended.
	return c.removeNode(ctx, name)
}

func (c *cloud) noteEnd(name string, at time.Time, why string) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.record.alive[name] == nil {
		return nil
	}
	return c.record.note(event{Event: eventEnded, At: at, Instance: name, Why: why})
}

// removeNode asks nobody: the machine is gone, whatever finalizers its Node has. They are taken off last, since none can
// be put on a Node that is being deleted.
func (c *cloud) removeNode(ctx context.Context, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.client.Delete(ctx, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	return client.IgnoreNotFound(c.client.Patch(ctx, node, free))
}

// endOrphans ends machines whose claim is gone: the providers of clouds have a controller for it, upstream's KWOK
// provider has none.
func (c *cloud) endOrphans(ctx context.Context) {
	var claims v1.NodeClaimList
	if err := c.client.List(ctx, &claims); err != nil {
		log.Printf("cannot list claims: %v", err)
		return
	}
	known := map[string]bool{}
	for _, claim := range claims.Items {
		known[string(claim.UID)] = true
	}
	isOrphan := func(m *machine) bool { return !known[m.ClaimUID] && time.Since(m.Launched) > orphanAge }
	c.forEach(isOrphan, func(m *machine) {
		if err := c.end(ctx, m.Instance, time.Now(), "no claim"); err != nil {
			log.Printf("cannot end %s, and try again: %v", m.Instance, err)
		}
	})
}
