from .comparing import ComparedLearner as ComparedLearner
from .comparing import Comparison as Comparison
from .comparing import compare as compare
