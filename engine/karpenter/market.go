package main

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/resources"
)

// rackLabel is api-types' RACK_LABEL.
const rackLabel = "topology.warpyard.dev/rack"

// offer is one line of the price list, and what machines are counted by.
type offer struct {
	InstanceType string `json:"instance_type"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacity_type"`
	Rack         string `json:"rack"`
}

func (o offer) compare(other offer) int {
	return cmp.Or(
		cmp.Compare(o.InstanceType, other.InstanceType),
		cmp.Compare(o.Zone, other.Zone),
		cmp.Compare(o.CapacityType, other.CapacityType),
		cmp.Compare(o.Rack, other.Rack),
	)
}

func (p pattern) matches(o offer) bool {
	is := func(wanted, found string) bool { return wanted == "" || wanted == found }
	return is(p.InstanceType, o.InstanceType) && is(p.Zone, o.Zone) &&
		is(p.CapacityType, o.CapacityType) && is(p.Rack, o.Rack)
}

func offerOf(instanceType *cloudprovider.InstanceType, offering *cloudprovider.Offering) offer {
	value := func(key string) string {
		if values := offering.Requirements.Get(key).Values(); len(values) == 1 {
			return values[0]
		}
		return ""
	}
	return offer{
		InstanceType: instanceType.Name,
		Zone:         value(corev1.LabelTopologyZone),
		CapacityType: value(v1.CapacityTypeLabelKey),
		Rack:         value(rackLabel),
	}
}

// priced is the list with the prices of now; what is remembered as out of stock is shown as not available.
func priced(list []*cloudprovider.InstanceType, c controls, isOut func(offer) bool) []*cloudprovider.InstanceType {
	now := make([]*cloudprovider.InstanceType, 0, len(list))
	for _, listed := range list {
		offerings := make(cloudprovider.Offerings, 0, len(listed.Offerings))
		for _, offering := range listed.Offerings {
			o := offerOf(listed, offering)
			price := offering.Price
			for _, change := range c.Prices {
				if change.Of.matches(o) {
					price = float64(change.MicrosPerHour) / 1e6
				}
			}
			offerings = append(offerings, &cloudprovider.Offering{
				Requirements:        offering.Requirements,
				Price:               price,
				Available:           !isOut(o),
				ReservationCapacity: offering.ReservationCapacity,
			})
		}
		now = append(now, withOfferings(listed, offerings))
	}
	return now
}

func withOfferings(listed *cloudprovider.InstanceType, offerings cloudprovider.Offerings) *cloudprovider.InstanceType {
	return &cloudprovider.InstanceType{
		Name:         listed.Name,
		Requirements: listed.Requirements,
		Offerings:    offerings,
		Capacity:     listed.Capacity,
		Overhead:     listed.Overhead,
	}
}

// choice is what a claim gets: one type, with the one offering that was taken.
type choice struct {
	instanceType *cloudprovider.InstanceType
	offer        offer
	micros       int64
}

// choose takes the cheapest offering in stock that satisfies a claim; of several, the one with the fewest machines
// alive, then by name. Offerings that would have done but are out of stock are returned beside it.
func choose(
	list []*cloudprovider.InstanceType, claim *v1.NodeClaim, c controls, alive map[offer]int,
) (*choice, []offer) {
	wanted := scheduling.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	var candidates []choice
	var out []offer
	for _, listed := range list {
		if wanted.Compatible(listed.Requirements, scheduling.AllowUndefinedWellKnownLabels) != nil ||
			!resources.Fits(claim.Spec.Resources.Requests, listed.Allocatable()) {
			continue
		}
		for _, offering := range listed.Offerings.Compatible(wanted) {
			o := offerOf(listed, offering)
			if !inStock(c.Stock, o, alive) {
				out = append(out, o)
				continue
			}
			candidates = append(candidates, choice{
				instanceType: withOfferings(listed, cloudprovider.Offerings{offering}),
				offer:        o,
				micros:       int64(math.Round(offering.Price * 1e6)),
			})
		}
	}
	if len(candidates) == 0 {
		return nil, out
	}
	best := slices.MinFunc(candidates, func(a, b choice) int {
		return cmp.Or(
			cmp.Compare(a.micros, b.micros),
			cmp.Compare(alive[a.offer], alive[b.offer]),
			a.offer.compare(b.offer),
		)
	})
	return &best, out
}

func inStock(stocks []stock, o offer, alive map[offer]int) bool {
	for _, s := range stocks {
		if !s.Of.matches(o) {
			continue
		}
		count := 0
		for living, machines := range alive {
			if s.Of.matches(living) {
				count += machines
			}
		}
		if count >= s.MachinesMax {
			return false
		}
	}
	return true
}
