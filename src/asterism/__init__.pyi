"""The public names and the modules that define them; ``__init__.py`` loads them from here."""

from asterism.data.observations import Observations as Observations
from asterism.data.trajectories import Trajectories as Trajectories
from asterism.inference.posterior import Posterior as Posterior
from asterism.inference.posterior import infer as infer
from asterism.learning.em.fit_measures import likelihood_ratio_test as likelihood_ratio_test
from asterism.learning.em.parameter_learner import ParameterLearner as ParameterLearner
from asterism.learning.em.rate_model import Effect as Effect
from asterism.learning.learner_settings import Accuracy as Accuracy
from asterism.learning.learner_settings import Sampling as Sampling
from asterism.learning.learner_settings import Search as Search
from asterism.learning.learner_settings import StructurePrior as StructurePrior
from asterism.learning.search.structure_learner import StructureLearner as StructureLearner
from asterism.learning.search.task import structure_score as structure_score
from asterism.model.drift import Drift as Drift
from asterism.model.emission_continuous import Continuous as Continuous
from asterism.model.emission_discrete import Categorical as Categorical
from asterism.model.emission_discrete import Exact as Exact
from asterism.model.emission_discrete import Likelihood as Likelihood
from asterism.model.emission_numeric import Gaussian as Gaussian
from asterism.model.emission_numeric import Poisson as Poisson
from asterism.model.emission_numeric import StudentT as StudentT
from asterism.model.emission_silent import SilentStates as SilentStates
from asterism.model.emission_threshold import Threshold as Threshold
from asterism.model.emissions import Emission as Emission
from asterism.model.emissions import Joint as Joint
from asterism.model.generators import glauber as glauber
from asterism.model.generators import random_network as random_network
from asterism.model.network import Network as Network
from asterism.model.priors import GammaPrior as GammaPrior
from asterism.model.priors import Transitions as Transitions
from asterism.model.rates import SummaryRates as SummaryRates
from asterism.report import plots as plots
from asterism.report.bundled_data import demo_files as demo_files
from asterism.results import metrics as metrics
from asterism.results.comparison import compare as compare
from asterism.results.folder import load as load
from asterism.results.run import Run as Run
from asterism.simulation.simulator import observe as observe
from asterism.simulation.simulator import simulate as simulate

__version__: str
