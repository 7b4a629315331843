package main

import (
	"context"
	"fmt"
	goruntime "runtime"
	"time"

	"peers/figures"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// run relays n requests in chunks. Of each chunk only the relaying is measured: its
// requests are made before, and the garbage of making them is collected before, too.
func (r *runtime) run(n, chunk int) (any, error) {
	ctx := context.Background()
	took := make([]time.Duration, 0, n)
	var cpu time.Duration
	for len(took) < n {
		requests := r.prepare(min(chunk, n-len(took)))
		goruntime.GC()
		before, err := figures.Used()
		if err != nil {
			return nil, err
		}
		for _, request := range requests {
			start := time.Now()
			if err := r.nri.StartContainer(ctx, request); err != nil {
				return nil, err
			}
			took = append(took, time.Since(start))
		}
		after, err := figures.Used()
		if err != nil {
			return nil, err
		}
		cpu += after - before
	}
	return figures.Summary(took, cpu), nil
}

// prepare makes requests for containers that are alike in all but their id.
func (r *runtime) prepare(n int) []*api.StartContainerRequest {
	requests := make([]*api.StartContainerRequest, n)
	for i := range requests {
		requests[i] = proto.Clone(r.request).(*api.StartContainerRequest)
		requests[i].Container.Id = fmt.Sprintf("c7%062x", r.serial)
		r.serial++
	}
	return requests
}
