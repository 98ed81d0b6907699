"""Small games with a known landscape: payoffs, equilibria, exact gradients."""
