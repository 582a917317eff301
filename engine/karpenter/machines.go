package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// machine is one that is paid for, from its launch until its end.
type machine struct {
	// Instance is the name of its Node.
	Instance      string    `json:"instance"`
	Claim         string    `json:"claim"`
	ClaimUID      string    `json:"claim_uid"`
	Offer         offer     `json:"offer"`
	MicrosPerHour int64     `json:"price_micros_per_hour"`
	Launched      time.Time `json:"launched"`
	// RegistersAt is when its Node appears; never, if nil.
	RegistersAt *time.Time `json:"registers_at"`
	// EndsAt is when it disappears by itself; never, if nil.
	EndsAt *time.Time `json:"ends_at"`
	// Answer is what the cloud says of it: labels, shape and address.
	Answer v1.NodeClaim `json:"answer"`

	registered bool
	ready      bool
}

// node is what the machine's kubelet registers.
func (m *machine) node() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.Instance, Labels: m.Answer.Labels, Annotations: m.Answer.Annotations,
		},
		Spec: corev1.NodeSpec{
			ProviderID: m.Answer.Status.ProviderID,
			Taints:     []corev1.Taint{v1.UnregisteredNoExecuteTaint},
		},
		Status: corev1.NodeStatus{
			Capacity: m.Answer.Status.Capacity, Allocatable: m.Answer.Status.Allocatable, Phase: corev1.NodePending,
		},
	}
}

// event is one line of the record.
type event struct {
	Event string    `json:"event"`
	At    time.Time `json:"at"`
	// Instance and Claim say whom it is about.
	Instance string `json:"instance,omitempty"`
	Claim    string `json:"claim,omitempty"`
	ClaimUID string `json:"claim_uid,omitempty"`
	// Why a machine ended or a launch was refused.
	Why     string   `json:"why,omitempty"`
	Process int      `json:"process,omitempty"`
	Machine *machine `json:"machine,omitempty"`
	Fate    *decided `json:"fate,omitempty"`
}

const (
	eventStarted    = "started"
	eventFate       = "fate"
	eventRefused    = "refused"
	eventLaunched   = "launched"
	eventRegistered = "registered"
	eventReady      = "ready"
	eventEnded      = "ended"
)

// record is what the cloud knows, and the file that it is written to first.
type record struct {
	file   *os.File
	alive  map[string]*machine
	fates  fates
	counts map[offer]int
}

// openRecord goes on with a record: the machines of a cloud do not end with Karpenter.
func openRecord(path string) (*record, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &record{file: file, alive: map[string]*machine{}, fates: newFates(), counts: map[offer]int{}}
	// A line without its end was being written when we were killed; it was not acted on.
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	if err := file.Truncate(int64(len(whole))); err != nil {
		return nil, err
	}
	for line := range bytes.Lines(whole) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading %q: %w", line, err)
		}
		r.take(e)
	}
	return r, nil
}

// note writes an event, and acts on it only when it is written.
func (r *record) note(e event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the cloud's record: %w", err)
	}
	r.take(e)
	return nil
}

func (r *record) take(e event) {
	switch e.Event {
	case eventFate:
		r.fates.remember(e.ClaimUID, *e.Fate)
	case eventRefused:
		r.fates.refused[e.ClaimUID]++
	case eventLaunched:
		r.alive[e.Instance] = e.Machine
		r.counts[e.Machine.Offer]++
	case eventRegistered, eventReady:
		if m := r.alive[e.Instance]; m != nil {
			m.registered = true
			m.ready = m.ready || e.Event == eventReady
		}
	case eventEnded:
		if m := r.alive[e.Instance]; m != nil {
			r.counts[m.Offer]--
			delete(r.alive, e.Instance)
		}
	}
}

// ofClaim is the living machine of a claim, if it has one.
func (r *record) ofClaim(claimUID string) *machine {
	for _, m := range r.alive {
		if m.ClaimUID == claimUID {
			return m
		}
	}
	return nil
}
