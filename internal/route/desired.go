package route

// desired returns what there should be of one family: the active default first,
// and rules in the order in which they are safe to add, which is that of the
// kernel: that of main stands before `from` and these before the active table's.
func (l Layout) desired(v6 bool) (routes []Route, rules []Rule) {
	if r, ok := l.activeRoute(v6); ok {
		routes = append(routes, r)
	}
	if l.Simple {
		return routes, nil
	}
	rule := func(r Rule) {
		r.V6, r.Protocol = v6, l.Protocol
		rules = append(rules, r)
	}
	for i, u := range l.Uplinks {
		routes = append(routes, l.tableOf(u, v6)...)
		if !u.Unmarked {
			rule(Rule{Priority: l.probeRule(i), Mark: u.Mark, Mask: l.Mask, Table: u.Table})
		}
	}
	rule(Rule{Priority: l.mainRule(), Table: MainTable, Suppress: true})
	for i, u := range l.Uplinks {
		if source, _ := u.way(v6); source.IsValid() {
			from, _ := source.Prefix(source.BitLen())
			rule(Rule{Priority: l.fromRule(i), From: from, Table: u.Table})
		}
	}
	rule(Rule{Priority: l.activeRule(), Table: l.ActiveTable})
	return routes, rules
}

// activePlace returns where the active default is.
func (l Layout) activePlace(v6 bool) routeKey {
	if l.Simple {
		return routeKey{MainTable, defaultOf(v6), l.Metric}
	}
	return routeKey{l.ActiveTable, defaultOf(v6), ownMetric(v6)}
}

// activeRoute returns the default of the active uplink. One without IPv4 leaves it
// to main, as the kernel does when the address goes.
func (l Layout) activeRoute(v6 bool) (Route, bool) {
	u, ok := l.active()
	if !ok {
		return Route{}, false
	}
	place := l.activePlace(v6)
	if u.Has(v6) {
		return l.defaultBy(u, v6, place), true
	}
	for _, other := range l.Uplinks {
		if v6 && other.Has(v6) {
			return l.unreachable(place), true
		}
	}
	return Route{}, false
}

// tableOf returns the table of an uplink in the order in which it is safe to add.
func (l Layout) tableOf(u Uplink, v6 bool) (routes []Route) {
	source, _ := u.way(v6)
	for _, p := range u.Connected {
		if p.Addr().Is6() == v6 {
			routes = append(routes, Route{Table: u.Table, Dst: p, Metric: ownMetric(v6), Type: unicast,
				Interface: u.Interface, Index: u.Index, Source: source, Protocol: l.Protocol})
		}
	}
	if u.Has(v6) {
		routes = append(routes, l.defaultBy(u, v6, routeKey{u.Table, defaultOf(v6), ownMetric(v6)}))
	}
	return append(routes, l.unreachable(routeKey{u.Table, defaultOf(v6), lastMetric}))
}

func (l Layout) defaultBy(u Uplink, v6 bool, at routeKey) Route {
	source, gateway := u.way(v6)
	metrics := u.Metrics4
	if v6 {
		metrics = u.Metrics6
	}
	return Route{Table: at.table, Dst: at.dst, Metric: at.metric, Type: unicast, Gateway: gateway,
		Interface: u.Interface, Index: u.Index, Source: source, Protocol: l.Protocol, Metrics: metrics,
		OnLink: gateway.IsValid() && u.OnLink && !u.onLink(gateway)}
}

func (l Layout) unreachable(at routeKey) Route {
	return Route{Table: at.table, Dst: at.dst, Metric: at.metric, Type: unreachable, Protocol: l.Protocol}
}

// ownMetric is the one that the kernel gives where none is asked for.
func ownMetric(v6 bool) uint32 {
	if v6 {
		return 1024
	}
	return 0
}
