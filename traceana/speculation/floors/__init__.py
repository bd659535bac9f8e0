"""How fast a box could do it: floors of allreduce, of weight reads and of launches, all of them modelled."""
