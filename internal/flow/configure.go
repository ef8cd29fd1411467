package flow

import (
	"errors"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/keelson-io/keelson/internal/flow/bootstrap"
)

// This file turns the configuration objects into levels and an index of schemas.

// Configure replaces the configuration. Objects that are broken, and schemas without a level, are as
// if they did not exist. The objects must not change any more.
func (c *Controller) Configure(levels []*flowcontrolv1.PriorityLevelConfiguration, schemas []*flowcontrolv1.FlowSchema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.configured, c.schemas = levels, schemas
	c.digest()
}

// Dangles reports whether a schema refers to a level that does not exist.
func (c *Controller) Dangles(s *flowcontrolv1.FlowSchema) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.usable[s.Spec.PriorityLevelConfiguration.Name]
}

// digest applies the configuration. The lock is held.
func (c *Controller) digest() {
	old := c.levels
	c.levels, c.usable = make(map[string]*priority, len(old)), make(map[string]bool, len(c.configured))
	for _, p := range c.configured {
		if err := check(p); err != nil {
			c.logger.Warn("priority level is ignored", "name", p.Name, "error", err)
			continue
		}
		c.keep(old[p.Name], p, false)
		c.usable[p.Name] = true
	}
	for _, p := range bootstrap.Levels(true) {
		if c.levels[p.Name] == nil { // it is kept as it was, with or without an object
			if was := old[p.Name]; was != nil {
				p = was.config
			}
			c.keep(old[p.Name], p, false)
		}
	}
	for name, was := range old {
		if c.levels[name] != nil {
			continue
		}
		c.keep(was, was.config, true)
		was.mu.Lock()
		if was.isIdle() {
			delete(c.levels, name)
		}
		was.mu.Unlock()
	}
	c.divideNominally()
	c.adjust()
	c.reindex()
}

// check returns why a level cannot be used, nil if it can.
func check(p *flowcontrolv1.PriorityLevelConfiguration) error {
	s := &p.Spec
	exempt := s.Type == flowcontrolv1.PriorityLevelEnablementExempt
	switch {
	case exempt != (p.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt):
		return errors.New("only the level named exempt is exempt")
	case exempt == (s.Limited != nil), !exempt && s.Exempt != nil:
		return errors.New("the type does not match its configuration")
	case exempt:
		return nil
	}
	q := s.Limited.LimitResponse.Queuing
	if (s.Limited.LimitResponse.Type == flowcontrolv1.LimitResponseTypeReject) != (q == nil) {
		return errors.New("the type of the limit response does not match its configuration")
	}
	if q != nil && (q.Queues < 1 || q.Queues > maxDeck || q.HandSize < 1 || q.HandSize > q.Queues || q.HandSize > maxHand) {
		return errors.New("hands cannot be dealt from these queues")
	}
	return nil
}

// keep puts a level into the configuration, as it was or as a new one. The lock is held.
func (c *Controller) keep(was *priority, p *flowcontrolv1.PriorityLevelConfiguration, quiescing bool) {
	if was == nil {
		was = &priority{level: newLevel(p.Name, c.clock)}
		was.exempt = p.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt
		was.idle = func() {
			select {
			case c.ended <- struct{}{}:
			default: // a signal is waiting already
			}
		}
	}
	was.quiescing.Store(quiescing)
	was.uid.Store(&[]string{string(p.UID)})
	c.levels[p.Name] = &priority{level: was.level, config: p}
}

// commons returns the shares, and the percentages of seats that a level lends and borrows.
func commons(p *flowcontrolv1.PriorityLevelConfiguration) (shares, lends int32, borrows *int32) {
	or := func(n *int32, standard int32) int32 {
		if n == nil {
			return standard
		}
		return *n
	}
	if l := p.Spec.Limited; l != nil {
		return or(l.NominalConcurrencyShares, 30), or(l.LendablePercent, 0), l.BorrowingLimitPercent
	}
	if e := p.Spec.Exempt; e != nil {
		return or(e.NominalConcurrencyShares, 0), or(e.LendablePercent, 0), nil
	}
	return 0, 0, nil
}

// divideNominally computes the nominal limits of all levels. The lock is held.
func (c *Controller) divideNominally() {
	var all float64
	for _, p := range c.levels {
		shares, _, _ := commons(p.config)
		all += float64(shares)
	}
	c.nominal = 0
	for _, p := range c.levels {
		shares, lends, borrows := commons(p.config)
		next := limitsOf(c.total, float64(shares), max(all, 1), lends, borrows)
		p.mu.Lock()
		if p.known {
			next.current = p.limits.current
		}
		p.limits, p.known = next, true
		p.mu.Unlock()
		p.maxSeats.Store(0)
		if p.config.Spec.Limited != nil {
			if q := p.config.Spec.Limited.LimitResponse.Queuing; q != nil {
				p.maxSeats.Store(maxSeatsOf(next.nominal, int(q.HandSize)))
			}
		}
		c.nominal += next.nominal
	}
}

// reindex replaces what requests see. The lock is held.
func (c *Controller) reindex() {
	x := &index{users: map[string][]*rule{}, groups: map[string][]*rule{}, accounts: map[string][]*rule{}}
	var good []*flowcontrolv1.FlowSchema
	missing := bootstrap.Schemas(true)
	for _, s := range c.schemas {
		if c.usable[s.Spec.PriorityLevelConfiguration.Name] {
			good = append(good, s)
			missing = slices.DeleteFunc(missing, func(m *flowcontrolv1.FlowSchema) bool { return m.Name == s.Name })
		}
	}
	good = append(good, missing...)
	slices.SortFunc(good, inOrder)
	for _, s := range good {
		level := c.levels[s.Spec.PriorityLevelConfiguration.Name]
		key := seriesKey{level.name, s.Name}
		if c.series[key] == nil {
			c.series[key] = newSeries(key.level, key.schema)
		}
		compiled := &schemaOf{name: s.Name, uid: string(s.UID), uidHeader: []string{string(s.UID)}, level: level.level, series: c.series[key]}
		if l := level.config.Spec.Limited; l != nil && l.LimitResponse.Queuing != nil {
			compiled.queues = l.LimitResponse.Queuing.Queues > 1
		}
		if m := s.Spec.DistinguisherMethod; m != nil {
			compiled.flows = m.Type
		}
		x.add(compiled, &s.Spec)
		if s.Name == flowcontrolv1.FlowSchemaNameCatchAll {
			x.catchAll = compiled
		}
	}
	c.index.Store(x)
	// Series of schemas and levels that are gone are dropped when no request counts in them any more.
	live := make(map[*series]bool, len(x.schemas))
	for _, s := range x.schemas {
		live[s.series] = true
	}
	for key, s := range c.series {
		if !live[s] && s.inside.Load() == 0 && s.waiting.Load() == 0 {
			delete(c.series, key)
		}
	}
}
