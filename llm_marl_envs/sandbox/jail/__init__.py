"""What runs inside the confined processes: the zygote, the programs and the judge of their tests.

Owns everything that is executed by the sandbox's own interpreter processes. It is importable under
two names: as a package of the library, and as the top-level package `jail` inside the zygote, which
is started without the library on its path. For that reason its modules import only the standard
library and each other, relatively.
"""
