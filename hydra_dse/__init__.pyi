from hydra_dse.api import compare as compare
from hydra_dse.api import dynamic as dynamic
from hydra_dse.api import estimate as estimate
from hydra_dse.api import explain as explain
from hydra_dse.api import load_calibration as load_calibration
from hydra_dse.api import load_design as load_design
from hydra_dse.api import load_experiment as load_experiment
from hydra_dse.api import load_workload as load_workload
from hydra_dse.api import open_run as open_run
from hydra_dse.api import robustness as robustness
from hydra_dse.api import simulate as simulate
from hydra_dse.api import sweep as sweep
from hydra_dse.api import uncertainty as uncertainty
from hydra_dse.api import validate as validate
from hydra_dse.api import variance as variance
from hydra_dse.api import whatif as whatif

__version__: str
