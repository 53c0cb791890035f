package uploader

// pathsOwn tells faults of a path from those of the record or the run, which only
// the other paths can tell: what one path refuses, and has always refused, while
// another takes records, or is preferred anyway, is its own fault. Such a record goes by another path, and
// the breaker hears of a failure.
func (r *run) pathsOwn(p *Path, trial bool, out Outcome) Outcome {
	if len(r.parts.Paths) < 2 {
		return out
	}
	s := r.paths[p]
	s.mu.Lock()
	s.took = s.took || out.Class == ClassAcked
	s.misset = out.Class == ClassConfig || s.misset && out.Status == 0
	took := s.took
	s.mu.Unlock()
	switch {
	case out.Class == ClassConfig && !r.allMisset():
	case !took && (trial || r.anotherTook(p)) && elsewhere(out):
	default:
		return out
	}
	out.Class, out.Verdict = ClassRetry, VerdictFail
	return out
}

// elsewhere says that an answer may come from a server that is not the API, or that
// does not know it: about a record it says nothing then.
func elsewhere(out Outcome) bool {
	if out.Class == ClassAuth {
		return !out.Renewed && !out.NoToken
	}
	return out.Class == ClassRejected && (out.Status == 403 || out.Status == 404 || out.Status == 405 || out.Status == 410)
}

func (r *run) allMisset() bool {
	return r.everyPath(func(s *pathState) bool { return s.misset })
}

func (r *run) anotherTook(p *Path) bool {
	mine := r.paths[p]
	return !r.everyPath(func(s *pathState) bool { return s == mine || !s.took })
}

func (r *run) everyPath(is func(*pathState) bool) bool {
	for _, s := range r.paths {
		s.mu.Lock()
		yes := is(s)
		s.mu.Unlock()
		if !yes {
			return false
		}
	}
	return true
}
