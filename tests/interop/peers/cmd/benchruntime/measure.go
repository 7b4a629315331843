package main

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"peers/figures"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// job is what is to be measured: n requests op by so many callers, each with a pod of its
// own, while others (beside) do nothing but create containers.
type job struct {
	op      string
	n       int
	chunk   int
	callers int
	beside  int
}

// result is what it showed.
type result struct {
	figures.Sample
	Wall float64 `json:"wall_us"`
	// Beside is how many containers were created meanwhile.
	Beside int64 `json:"beside"`
	// Env is how many variables the plugins set for the last container that was created.
	Env int64 `json:"env"`
}

// Others that create begin so long before anything is measured.
const headStart = 300 * time.Millisecond

// run makes the requests of a job in chunks. Of each chunk only the relaying is measured: its
// requests are made before, and the garbage of making them is collected before, too. In a
// chunk of one, nothing is collected but by Go's own choice.
func (r *runtime) run(j job) (any, error) {
	others := r.others(j)
	m := measured{took: make([]time.Duration, 0, j.n)}
	for len(m.took) < j.n {
		requests := r.share(min(j.chunk, j.n-len(m.took)), j.callers)
		if j.chunk > 1 {
			goruntime.GC()
		}
		if err := r.relay(j.op, requests, &m); err != nil {
			return nil, err
		}
	}
	beside, err := others()
	if err != nil {
		return nil, err
	}
	return result{figures.Summary(m.took, m.cpu), float64(m.wall.Microseconds()), beside, m.env.Load()}, nil
}

// measured is what was measured so far.
type measured struct {
	took []time.Duration
	cpu  time.Duration
	wall time.Duration
	env  atomic.Int64
}

// relay lets each caller make its requests, all at the same time.
func (r *runtime) relay(op string, requests [][]*api.StartContainerRequest, m *measured) error {
	took, errs := make([][]time.Duration, len(requests)), make([]error, len(requests))
	before, err := figures.Used()
	if err != nil {
		return err
	}
	start := time.Now()
	var callers sync.WaitGroup
	for i := range requests {
		callers.Go(func() {
			for _, request := range requests[i] {
				start := time.Now()
				if errs[i] = r.call(op, request, &m.env); errs[i] != nil {
					return
				}
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	callers.Wait()
	m.wall += time.Since(start)
	after, err := figures.Used()
	m.cpu += after - before
	for _, t := range took {
		m.took = append(m.took, t...)
	}
	return errors.Join(append(errs, err)...)
}

func (r *runtime) call(op string, request *api.StartContainerRequest, env *atomic.Int64) error {
	ctx := context.Background()
	switch op {
	case "StartContainer":
		return r.nri.StartContainer(ctx, request)
	case "CreateContainer":
		create := &api.CreateContainerRequest{Pod: request.Pod, Container: request.Container}
		response, err := r.nri.CreateContainer(ctx, create)
		env.Store(int64(len(response.GetAdjust().GetEnv())))
		return err
	default:
		return fmt.Errorf("%s is not measured", op)
	}
}

// others begins to create containers. The function that it returns ends that, and says how
// many it were.
func (r *runtime) others(j job) func() (int64, error) {
	var callers sync.WaitGroup
	var done atomic.Bool
	var created, ignored atomic.Int64
	errs := make([]error, j.beside)
	for i := range j.beside {
		callers.Go(func() {
			for !done.Load() && errs[i] == nil {
				errs[i] = r.call("CreateContainer", r.prepare(j.callers+i), &ignored)
				created.Add(1)
			}
		})
	}
	if j.beside > 0 {
		time.Sleep(headStart)
	}
	return func() (int64, error) {
		done.Store(true)
		callers.Wait()
		return created.Load(), errors.Join(errs...)
	}
}

// share makes n requests and gives each caller its share.
func (r *runtime) share(n, callers int) [][]*api.StartContainerRequest {
	requests := make([][]*api.StartContainerRequest, callers)
	for i := range n {
		requests[i%callers] = append(requests[i%callers], r.prepare(i%callers))
	}
	return requests
}

// prepare makes a request for a container in this pod. Containers and pods are alike in all
// but their ids.
func (r *runtime) prepare(pod int) *api.StartContainerRequest {
	request := proto.Clone(r.request).(*api.StartContainerRequest)
	request.Pod.Id = fmt.Sprintf("9d%062x", pod)
	request.Container.PodSandboxId = request.Pod.Id
	request.Container.Id = fmt.Sprintf("c7%062x", r.serial.Add(1))
	return request
}
